package golden

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"sigs.k8s.io/yaml"
)

// Stored reads a manifest into object as the API server would store it: with the defaults of the schema in the
// CustomResourceDefinition at crd. A field that the Go type does not have is an error.
func Stored(t testing.TB, manifest []byte, crd string, object any) {
	t.Helper()
	schema, err := schemaOf(crd)
	if err != nil {
		t.Fatal(err)
	}
	var value any
	if err := yaml.Unmarshal(manifest, &value); err != nil {
		t.Fatal(err)
	}
	setDefaults(value, schema)
	full, err := yaml.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(full, object); err != nil {
		t.Fatal(err)
	}
}

// schemas that were read, by file: reading one takes far longer than using it.
var schemas sync.Map

func schemaOf(crd string) (map[string]any, error) {
	if schema, ok := schemas.Load(crd); ok {
		return schema.(map[string]any), nil
	}
	var definition struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema map[string]any `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	text, err := os.ReadFile(crd)
	if err != nil {
		return nil, err
	}
	if err := yaml.Unmarshal(text, &definition); err != nil {
		return nil, err
	}
	if n := len(definition.Spec.Versions); n != 1 {
		return nil, fmt.Errorf("%s has %d versions, want 1", crd, n)
	}
	schema := definition.Spec.Versions[0].Schema.OpenAPIV3Schema
	schemas.Store(crd, schema)
	return schema, nil
}

// setDefaults sets what is absent, parents before children, as structural schemas do.
func setDefaults(value any, schema map[string]any) {
	switch v := value.(type) {
	case map[string]any:
		properties, _ := schema["properties"].(map[string]any)
		for name, property := range properties {
			p, _ := property.(map[string]any)
			if byDefault, has := p["default"]; has && v[name] == nil {
				v[name] = clone(byDefault)
			}
			setDefaults(v[name], p)
		}
	case []any:
		items, _ := schema["items"].(map[string]any)
		for _, item := range v {
			setDefaults(item, items)
		}
	}
}

func clone(value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, item := range v {
			out[key] = clone(item)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = clone(v[i])
		}
		return out
	}
	return value
}
