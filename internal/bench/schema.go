package bench

import (
	"encoding/json"
	"fmt"
	"reflect"
)

// ScenarioSchema is the JSON Schema (draft 2020-12) of a scenario's file, made from the Go types and the same bounds that
// Validate uses. It sees each fault of a single field but for bounds of durations and sizes, and of those that lie between
// fields only a missing or needless rate.
func ScenarioSchema() []byte {
	schema := schemaOf("", reflect.TypeFor[Scenario]())
	schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	schema["title"] = "A scenario of `warren bench`"
	schema["required"] = []string{"name"}
	text, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		panic(fmt.Sprintf("a schema of strings and numbers: %v", err)) // cannot be
	}
	return append(text, '\n')
}

func schemaOf(path string, t reflect.Type) map[string]any {
	out := map[string]any{}
	r := ruleOf(path)
	if r != nil {
		out["description"] = r.description
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == durationType:
		out["type"], out["pattern"] = "string", durationPattern.String()
	case t == sizeType:
		out["oneOf"] = []any{
			map[string]any{"type": "integer", "minimum": 0},
			map[string]any{"type": "string", "pattern": sizePattern.String()},
		}
	case t.Kind() == reflect.Struct:
		properties := map[string]any{}
		for field := range fields(t) {
			properties[field.name] = schemaOf(join(path, field.name), field.goType)
		}
		out["type"], out["properties"], out["additionalProperties"] = "object", properties, false
		between(path, out)
	case t.Kind() == reflect.Slice:
		out["type"], out["items"] = "array", schemaOf(path+"[]", t.Elem())
		out["minItems"], out["maxItems"] = 1, 100
	case t.Kind() == reflect.Map:
		out["type"] = "object"
		out["propertyNames"] = map[string]any{"not": map[string]any{"const": "x-queue-type"}}
		out["additionalProperties"] = map[string]any{"type": []string{"string", "integer", "boolean"}}
	default:
		scalarSchema(path, t, r, out)
	}
	return out
}

func scalarSchema(path string, t reflect.Type, r *rule, out map[string]any) {
	switch t.Kind() {
	case reflect.String:
		out["type"] = "string"
		if values := enums[t]; values != nil {
			out["enum"] = values
		}
		if path == "name" {
			out["pattern"] = namePattern.String()
		}
	case reflect.Bool:
		out["type"] = "boolean"
	default:
		out["type"] = "number"
		if t.Kind() != reflect.Float64 {
			out["type"] = "integer"
		}
		if r != nil && r.value != nil {
			out["minimum"], out["maximum"] = r.min, r.max
		}
	}
}

// between adds what the schema knows of fields together.
func between(path string, out map[string]any) {
	switch path {
	case "load":
		open := map[string]any{"properties": map[string]any{"mode": map[string]any{"const": OpenLoop}}, "required": []string{"mode"}}
		above := map[string]any{"properties": map[string]any{"rate": map[string]any{"exclusiveMinimum": 0}}}
		zero := map[string]any{"properties": map[string]any{"rate": map[string]any{"const": 0}}}
		out["if"], out["else"] = open, zero
		above["required"] = []string{"rate"}
		out["then"] = above
	case "backlog":
		out["required"] = []string{"messages"}
	case "storm":
		out["required"] = []string{"connections"}
	case "consumers.batch":
		out["required"] = []string{"size"}
	}
}

func ruleOf(path string) *rule {
	for i := range rules {
		if rules[i].path == path {
			return &rules[i]
		}
	}
	return nil
}
