package broker

import (
	"encoding/json"
	"reflect"
	"testing"
)

func TestDecodeDefinitionKeepsNumbersApart(t *testing.T) {
	got, err := DecodeDefinition([]byte(`{"a":9007199254740993,"b":5.0,"c":1.5,"d":1e3,"e":[1,"x",{"f":2}],"g":null,"h":18446744073709551616}`))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"a": int64(9007199254740993), "b": int64(5), "c": 1.5, "d": int64(1000),
		"e": []any{int64(1), "x", map[string]any{"f": int64(2)}}, "g": nil, "h": float64(18446744073709551616),
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %#v, want %#v", got, want)
	}
	for _, text := range []string{"", "null", "[]", "5", `"x"`, `{"a":`, `{} {}`, `{}x`} {
		if got, err := DecodeDefinition([]byte(text)); err == nil {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
}

func TestEqualDefinitions(t *testing.T) {
	type m = map[string]any
	for _, c := range []struct {
		name string
		a, b m
		want bool
	}{
		{"int, float and json.Number", m{"n": 5}, m{"n": float64(5)}, true},
		{"json.Number", m{"n": int64(5)}, m{"n": json.Number("5")}, true},
		{"int32 and uint64", m{"n": int32(5)}, m{"n": uint64(5)}, true},
		{"fractions", m{"n": 1.5}, m{"n": json.Number("1.5")}, true},
		{"big numbers differ by one", m{"n": int64(1<<53 + 1)}, m{"n": json.Number("9007199254740992")}, false},
		{"number and text", m{"n": 5}, m{"n": "5"}, false},
		{"lists", m{"ha-params": []any{"a", "b"}}, m{"ha-params": []string{"a", "b"}}, true},
		{"order of a list", m{"ha-params": []any{"a", "b"}}, m{"ha-params": []any{"b", "a"}}, false},
		{"length of a list", m{"ha-params": []any{"a"}}, m{"ha-params": []any{"a", "b"}}, false},
		{"numbers in lists", m{"x": []any{1, 2.0}}, m{"x": []any{1.0, json.Number("2")}}, true},
		{"objects", m{"x": m{"y": 1}}, m{"x": m{"y": 1.0}}, true},
		{"object and list", m{"x": m{}}, m{"x": []any{}}, false},
		{"list and text", m{"x": []any{}}, m{"x": ""}, false},
		{"text and list", m{"x": ""}, m{"x": []any{}}, false},
		{"null and absent", m{"x": nil}, m{}, false},
		{"same size, other key", m{"x": nil}, m{"y": nil}, false},
		{"null and null", m{"x": nil}, m{"x": nil}, true},
		{"booleans", m{"x": true}, m{"x": false}, false},
		{"nil and empty", nil, m{}, true},
		{"one key more", m{"x": 1}, m{"x": 1, "y": 2}, false},
	} {
		if got := EqualDefinitions(c.a, c.b); got != c.want {
			t.Errorf("%s: got %v", c.name, got)
		}
		if got := EqualDefinitions(c.b, c.a); got != c.want {
			t.Errorf("%s, turned round: got %v", c.name, got)
		}
	}
}

func TestNormalizeDefinitionCopies(t *testing.T) {
	list := []any{"a"}
	in := map[string]any{"list": list, "object": map[string]any{"n": 1}}
	out := NormalizeDefinition(in)
	list[0] = "changed"
	in["object"].(map[string]any)["n"] = 2
	if out["list"].([]any)[0] != "a" || out["object"].(map[string]any)["n"] != int64(1) {
		t.Errorf("the copy shares memory: %v", out)
	}
	if NormalizeDefinition(nil) != nil {
		t.Error("nil became something")
	}
}
