package bench

import (
	"encoding/json"
	"fmt"
)

// EncodeResult writes a result as its file has it.
func EncodeResult(r Result) ([]byte, error) {
	r.SchemaVersion = SchemaVersion
	text, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encoding the result of %s: %w", r.Scenario.Name, err)
	}
	return append(text, '\n'), nil
}

// DecodeResult reads the file of a result. Fields that it does not know are left out, since later versions add some; another
// schema version and a file without a scenario's name are errors.
func DecodeResult(text []byte) (Result, error) {
	var head struct {
		SchemaVersion *int `json:"schemaVersion"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return Result{}, fmt.Errorf("this is not the result of a benchmark: %w", err)
	}
	if head.SchemaVersion == nil {
		return Result{}, fmt.Errorf("this is not the result of a benchmark: it has no schemaVersion")
	}
	if *head.SchemaVersion != SchemaVersion {
		return Result{}, fmt.Errorf("the result has schemaVersion %d, this version reads %d", *head.SchemaVersion, SchemaVersion)
	}
	var r Result
	if err := json.Unmarshal(text, &r); err != nil {
		return Result{}, fmt.Errorf("reading a result: %w", err)
	}
	if r.Scenario.Name == "" {
		return Result{}, fmt.Errorf("the result names no scenario")
	}
	return r, nil
}
