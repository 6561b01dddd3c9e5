package broker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
)

// Whole numbers up to this size are exact in a float64.
const exactFloat = 1 << 53

// DecodeDefinition reads a policy definition from JSON. Whole numbers that fit become int64, other numbers
// float64, at any depth. Anything but one JSON object is an error.
func DecodeDefinition(text []byte) (map[string]any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var raw map[string]any
	if err := decoder.Decode(&raw); err != nil {
		return nil, fmt.Errorf("a policy definition must be a JSON object: %w", err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, fmt.Errorf("a policy definition must be one JSON object, with nothing behind it")
	}
	if raw == nil {
		return nil, fmt.Errorf("a policy definition must be a JSON object, not null")
	}
	return NormalizeDefinition(raw), nil
}

// NormalizeDefinition is a deep copy of definition in which every number has one form, whatever decoder it came
// from (encoding/json, json.Number, YAML): whole numbers that fit are int64, others float64. nil stays nil.
func NormalizeDefinition(definition map[string]any) map[string]any {
	if definition == nil {
		return nil
	}
	out := make(map[string]any, len(definition))
	for key, value := range definition {
		out[key] = normalize(value)
	}
	return out
}

// EqualDefinitions tells whether two definitions say the same: number forms do not matter (5, 5.0, json.Number
// "5"), the order inside lists (the nodes of ha-params) does. nil and empty are equal here, so a caller that reads
// nil as "unknown" asks for that first.
func EqualDefinitions(a, b map[string]any) bool {
	if len(a) != len(b) {
		return false
	}
	for key, value := range a {
		other, ok := b[key]
		if !ok || !equalValues(normalize(value), normalize(other)) {
			return false
		}
	}
	return true
}

// EqualValues tells whether two values of definitions are the same to a broker.
func EqualValues(a, b any) bool { return equalValues(normalize(a), normalize(b)) }

// equalValues compares two normalised values.
func equalValues(a, b any) bool {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		return ok && EqualDefinitions(x, y)
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for i := range x {
			if !equalValues(x[i], y[i]) {
				return false
			}
		}
		return true
	case int64, float64, string, bool, nil:
		switch b.(type) {
		case map[string]any, []any:
			return false
		}
		return a == b
	}
	return false
}

func normalize(value any) any {
	switch v := value.(type) {
	case map[string]any:
		return NormalizeDefinition(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = normalize(v[i])
		}
		return out
	case []string:
		out := make([]any, len(v))
		for i := range v {
			out[i] = v[i]
		}
		return out
	case json.Number:
		return normalizeNumber(v)
	case float64:
		return normalizeFloat(v)
	case float32:
		return normalizeFloat(float64(v))
	}
	return normalizeInteger(value)
}

// normalizeInteger gives every integer type of Go as int64; what is no integer comes back as it is.
func normalizeInteger(value any) any {
	switch v := value.(type) {
	case int:
		return int64(v)
	case int8:
		return int64(v)
	case int16:
		return int64(v)
	case int32:
		return int64(v)
	case uint8:
		return int64(v)
	case uint16:
		return int64(v)
	case uint32:
		return int64(v)
	case uint:
		return normalizeUnsigned(uint64(v))
	case uint64:
		return normalizeUnsigned(v)
	}
	return value
}

func normalizeUnsigned(v uint64) any {
	if v > math.MaxInt64 {
		return float64(v)
	}
	return int64(v)
}

func normalizeNumber(n json.Number) any {
	if whole, err := n.Int64(); err == nil {
		return whole
	}
	f, err := n.Float64()
	if err != nil {
		return n.String()
	}
	return normalizeFloat(f)
}

func normalizeFloat(f float64) any {
	if f == math.Trunc(f) && math.Abs(f) <= exactFloat {
		return int64(f)
	}
	return f
}
