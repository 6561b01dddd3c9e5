package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// Fault is one thing that is wrong with a file.
type Fault struct {
	// Path of the field, as in "consumers.batch.size" or "message.sizes[1]"; empty for the file as a whole.
	Path string
	// Message says what is wrong and what would be right.
	Message string
}

// String is "path: message".
func (f Fault) String() string {
	if f.Path == "" {
		return f.Message
	}
	return f.Path + ": " + f.Message
}

// Faults are all things that are wrong, in the order of the file's type.
type Faults []Fault

// mostFaults is how many an error lists: of a file that is something else altogether each line may be one.
const mostFaults = 20

// Error has one line for each fault, and one for those beyond the first twenty.
func (f Faults) Error() string {
	var lines []string
	for _, fault := range f[:min(len(f), mostFaults)] {
		lines = append(lines, fault.String())
	}
	if more := len(f) - mostFaults; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more faults", more))
	}
	return strings.Join(lines, "\n")
}

func (f *Faults) add(path, format string, args ...any) {
	*f = append(*f, Fault{Path: path, Message: fmt.Sprintf(format, args...)})
}

// DecodeScenario reads a scenario from YAML or JSON, sets defaults and validates it. An unknown or repeated field, an empty
// value and a value of another type are faults. The error is a Faults with all faults of the first of two steps that finds
// one: what the fields are, then what they say.
func DecodeScenario(text []byte) (Scenario, error) {
	s := Defaults()
	tree, err := decodeTree(text)
	if err != nil {
		return s, err
	}
	var faults Faults
	checkTree("", tree, reflect.TypeFor[Scenario](), &faults)
	if len(faults) > 0 {
		return s, faults
	}
	canonical, err := json.Marshal(tree)
	if err != nil {
		return s, Faults{{Message: err.Error()}}
	}
	if err := json.Unmarshal(canonical, &s); err != nil {
		return s, Faults{{Message: err.Error()}}
	}
	s.setOptionalDefaults()
	if faults := s.Validate(); len(faults) > 0 {
		return s, faults
	}
	return s, nil
}

// setOptionalDefaults sets defaults of parts that Defaults does not have.
func (s *Scenario) setOptionalDefaults() {
	if b := s.Consumers.Batch; b != nil && b.Wait == 0 {
		b.Wait = Duration(50e6)
	}
	if like := s.Queues.Like; like != nil && like.VHost == "" {
		like.VHost = "/"
	}
}

// decodeTree reads YAML or JSON into maps, slices, strings, json.Number and booleans.
func decodeTree(text []byte) (any, error) {
	if documents(text) > 1 {
		return nil, Faults{{Message: "there are several documents, with --- between them: want a file for each scenario"}}
	}
	asJSON, err := yaml.YAMLToJSONStrict(text)
	if infinite := new(json.UnsupportedValueError); errors.As(err, &infinite) {
		return nil, Faults{{Message: "want numbers that are finite, not " + infinite.Str}}
	}
	if err != nil {
		return nil, Faults{{Message: strings.TrimPrefix(err.Error(), "error converting YAML to JSON: ")}}
	}
	decoder := json.NewDecoder(bytes.NewReader(asJSON))
	decoder.UseNumber()
	var tree any
	if err := decoder.Decode(&tree); err != nil {
		return nil, Faults{{Message: err.Error()}}
	}
	return tree, nil
}

// documents of YAML that have content: readers take the first and say nothing of the others. A line that begins with --- cannot
// be part of anything else.
func documents(text []byte) (n int) {
	content := false
	for line := range bytes.Lines(text) {
		line = bytes.TrimRight(line, " \t\r\n")
		if rest, marker := bytes.CutPrefix(line, []byte("---")); marker && (len(rest) == 0 || rest[0] == ' ' || rest[0] == '\t') {
			content, line = false, bytes.TrimSpace(rest)
		}
		if trimmed := bytes.TrimSpace(line); content || len(trimmed) == 0 || trimmed[0] == '#' || string(line) == "..." || line[0] == '%' {
			continue
		}
		content = true
		n++
	}
	return n
}

// enums are the values that string types can have, for the decoder and the schema.
var enums = map[reflect.Type][]string{
	reflect.TypeFor[LoadMode]():   {string(OpenLoop), string(ClosedLoop)},
	reflect.TypeFor[QueueType]():  {string(ClassicQueue), string(QuorumQueue), string(StreamQueue), string(MirroredQueue)},
	reflect.TypeFor[Library]():    {string(WarrenLibrary)},
	reflect.TypeFor[HostSpread](): {string(AllHosts), string(FirstHost), string(ApartHosts)},
}

var (
	durationType = reflect.TypeFor[Duration]()
	sizeType     = reflect.TypeFor[Size]()
)

// checkTree compares a tree with the type that it shall become.
func checkTree(path string, value any, t reflect.Type, faults *Faults) {
	if value == nil && path == "" {
		faults.add(path, "the file is empty: want the fields of a scenario")
		return
	}
	if value == nil {
		faults.add(path, "has no value; leave the field out for its default")
		return
	}
	switch {
	case t.Kind() == reflect.Pointer:
		checkTree(path, value, t.Elem(), faults)
	case t == durationType || t == sizeType:
		checkUnit(path, value, t, faults)
	case t.Kind() == reflect.Struct:
		checkObject(path, value, t, faults)
	case t.Kind() == reflect.Slice:
		items, ok := value.([]any)
		if !ok {
			faults.add(path, "want a list, not %s", describe(value))
			return
		}
		for i, item := range items {
			checkTree(fmt.Sprintf("%s[%d]", path, i), item, t.Elem(), faults)
		}
	case t.Kind() == reflect.Map:
		checkArguments(path, value, faults)
	default:
		checkScalar(path, value, t, faults)
	}
}

func checkUnit(path string, value any, t reflect.Type, faults *Faults) {
	text, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(text, reflect.New(t).Interface())
	}
	if err != nil {
		faults.add(path, "%s", err)
	}
}

func checkObject(path string, value any, t reflect.Type, faults *Faults) {
	object, ok := value.(map[string]any)
	if !ok {
		faults.add(path, "want fields, not %s", describe(value))
		return
	}
	var known []string
	for field := range fields(t) {
		known = append(known, field.name)
		if member, present := object[field.name]; present {
			checkTree(join(path, field.name), member, field.goType, faults)
		}
	}
	for _, name := range sortedKeys(object) {
		if slices.Contains(known, name) {
			continue
		}
		if near := nearest(name, known); near != "" {
			faults.add(join(path, name), "is not a field; did you mean %s?", near)
		} else {
			faults.add(join(path, name), "is not a field; the fields are %s", strings.Join(known, ", "))
		}
	}
}

func checkArguments(path string, value any, faults *Faults) {
	object, ok := value.(map[string]any)
	if !ok {
		faults.add(path, "want arguments by name, not %s", describe(value))
		return
	}
	for _, name := range sortedKeys(object) {
		switch v := object[name].(type) {
		case string, bool:
		case json.Number:
			if _, err := v.Int64(); err != nil {
				faults.add(join(path, name), "want a whole number, not %s", v)
			}
		default:
			faults.add(join(path, name), "want text, a whole number, true or false, not %s", describe(v))
		}
	}
}

func checkScalar(path string, value any, t reflect.Type, faults *Faults) {
	number, isNumber := value.(json.Number)
	text, isText := value.(string)
	switch t.Kind() {
	case reflect.String:
		switch allowed := enums[t]; {
		case !isText:
			faults.add(path, "want text, not %s", describe(value))
		case allowed != nil && !slices.Contains(allowed, text):
			faults.add(path, "want %s, not %q", strings.Join(allowed, " or "), text)
		}
	case reflect.Int, reflect.Int64:
		if _, err := strconv.ParseInt(number.String(), 10, 64); !isNumber || err != nil {
			faults.add(path, "want a whole number, not %s", describe(value))
		}
	case reflect.Float64:
		if f, err := number.Float64(); !isNumber || err != nil || math.IsInf(f, 0) {
			faults.add(path, "want a number, not %s", describe(value))
		}
	case reflect.Bool:
		if _, ok := value.(bool); !ok {
			faults.add(path, "want true or false, not %s", describe(value))
		}
	}
}

func describe(value any) string {
	switch v := value.(type) {
	case nil:
		return "nothing"
	case map[string]any:
		return "fields"
	case []any:
		return "a list"
	case string:
		return strconv.Quote(v)
	}
	return fmt.Sprint(value)
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// field is a field of a file, in the order of its Go type.
type field struct {
	name     string
	goType   reflect.Type
	optional bool
}

func fields(t reflect.Type) func(yield func(field) bool) {
	return func(yield func(field) bool) {
		for i := range t.NumField() {
			name, options, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			if !yield(field{name: name, goType: t.Field(i).Type, optional: options == "omitempty"}) {
				return
			}
		}
	}
}

// nearest is the known name that was probably meant, or "".
func nearest(name string, known []string) string {
	best, least := "", 3
	for _, k := range known {
		if d := distance(strings.ToLower(name), strings.ToLower(k)); d < least {
			best, least = k, d
		}
	}
	return best
}

// distance is how many letters must be put in, taken out or changed.
func distance(a, b string) int {
	if len(a) > 64 {
		return len(a)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
