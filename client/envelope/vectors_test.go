package envelope

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the vectors in testdata anew")

const page = "../../docs/client-envelope.md"

// vector is a pack with what is in it, or with the error that it is.
type vector struct {
	name, about string
	messages    []Message
	pack        []byte // in place of what the messages give
	err         error
	encoding    string // of the file
}

// vectors are the contract with other languages: once released, one may be added, and none changed.
func vectors() []vector {
	at := time.Unix(1767225600, 0).UTC()
	example := Message{ID: "a1", Type: "paid", Headers: map[string]any{"n": int32(7)}, Body: []byte(`{"sum":5}`)}
	every := Message{
		ID: "id", ContentType: "application/json", ContentEncoding: "br", CorrelationID: "correlation", ReplyTo: "reply.to",
		Type: "type", AppID: "app", Timestamp: at, Body: []byte{0, 1, 0xff},
		Headers: map[string]any{
			"nil": nil, "false": false, "true": true, "int8": int8(-128), "uint8": uint8(255), "int16": int16(-32768),
			"uint16": uint16(65535), "int32": int32(-2147483648), "uint32": uint32(4294967295), "int64": int64(math.MinInt64),
			"float32": float32(1.5), "float64": -2.25e100, "string": "grüße", "empty": "", "bytes": []byte{0, 0xff},
			"time": at, "array": []any{int32(1), "two", []any{}, map[string]any{}},
			"table": map[string]any{"b": "2", "a": map[string]any{"deep": true}}, "": "no name", "é": "after z", "Z": "before a",
		},
	}
	one := packed(example)
	similar := slices.Repeat([]Message{example, every}, 4)
	vectors := []vector{
		{name: "example", about: "the example of the page", messages: []Message{example}},
		{name: "empty-message", about: "a message with nothing at all", messages: []Message{{}}},
		{name: "every-property", about: "every property, and every type of header", messages: []Message{every}},
		{name: "three", about: "three messages, one without properties", messages: []Message{example, {Body: []byte("plain")}, every}},
		{name: "long", about: "lengths of two bytes, and a text of 255 bytes", messages: []Message{
			{ID: strings.Repeat("i", 255), Body: bytes.Repeat([]byte("0123456789abcdef"), 16)},
		}},
		{name: "before-1970", about: "a timestamp below zero", messages: []Message{{Timestamp: time.Unix(-1, 0).UTC()}}},
		{name: "later-property", about: "a property of a later minor version, which is skipped",
			messages: []Message{{ID: "a", Body: []byte("b")}}, pack: seal(1, "\x07\x01\x01a\xc8\x02xy"+"\x01b")},
		{name: "gzip", about: "a pack compressed as a whole", messages: similar, encoding: "gzip"},
		{name: "zstd", about: "a pack compressed as a whole", messages: similar, encoding: "zstd"},
		{name: "bad-version", about: "version 2", pack: reseal(one, 4, 2), err: ErrVersion},
		{name: "bad-flag", about: "a flag that version 1 does not have", pack: reseal(one, 5, 1), err: ErrVersion},
		{name: "bad-magic", about: "another magic", pack: reseal(one, 0, 'W'), err: ErrCorrupt},
		{name: "bad-checksum", about: "a byte of the body differs", pack: flip(one, len(one)-6), err: ErrCorrupt},
		{name: "bad-truncated", about: "the last byte is missing", pack: one[:len(one)-1], err: ErrCorrupt},
	}
	for _, bad := range []struct {
		name, about string
		count       uint32
		entries     string
	}{
		{"count-zero", "no message", 0, ""},
		{"count-huge", "more messages than bytes", math.MaxUint32, "\x00\x00"},
		{"count-high", "one message more than there are", 2, "\x00\x02ab"},
		{"count-low", "bytes after the last message", 1, "\x00\x00\x00\x00"},
		{"length-beyond", "a body longer than the pack", 1, "\x00\x05abcd"},
		{"length-padded", "a length with a byte more than it needs", 1, "\x00\x81\x00a"},
		{"length-large", "a length over 32 bits", 1, "\x00\xff\xff\xff\xff\x10"},
		{"length-unending", "a length that does not end", 1, "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00"},
		{"property-zero", "property 0", 1, "\x02\x00\x00\x00"},
		{"property-twice", "a property twice", 1, "\x06\x01\x01a\x01\x01b\x00"},
		{"property-order", "properties out of order", 1, "\x06\x02\x01a\x01\x01b\x00"},
		{"property-beyond", "a property longer than its block", 1, "\x03\x01\x02ab\x00"},
		{"text-long", "a text of 256 bytes", 1, "\x83\x02\x01\x80\x02" + strings.Repeat("x", 256) + "\x00"},
		{"timestamp", "a timestamp of 7 bytes", 1, "\x09\x08\x07\x00\x00\x00\x00\x00\x00\x01\x00"},
		{"headers-short", "headers without a length", 1, "\x02\x09\x00\x00"},
		{"headers-after", "bytes after the headers", 1, "\x07\x09\x05\x00\x00\x00\x00\x00\x00"},
		{"headers-beyond", "headers longer than the property", 1, "\x06\x09\x04\x00\x00\x00\x01\x00"},
		{"headers-twice", "a header twice", 1, "\x0c\x09\x0a\x00\x00\x00\x06\x01aV\x01aV\x00"},
		{"headers-order", "headers out of order", 1, "\x0c\x09\x0a\x00\x00\x00\x06\x01bV\x01aV\x00"},
		{"headers-type", "a header of a type that is not known", 1, "\x0e\x09\x0c\x00\x00\x00\x08\x01aD\x00\x00\x00\x00\x01\x00"},
		{"headers-bool", "a truth value of 2", 1, "\x0a\x09\x08\x00\x00\x00\x04\x01at\x02\x00"},
		{"headers-no-value", "a header without a value", 1, "\x08\x09\x06\x00\x00\x00\x02\x01a\x00"},
		{"array-beyond", "an array longer than its table", 1, "\x0d\x09\x0b\x00\x00\x00\x07\x01aA\x00\x00\x00\x01\x00"},
	} {
		vectors = append(vectors, vector{name: "bad-" + bad.name, about: bad.about, pack: seal(bad.count, bad.entries), err: ErrCorrupt})
	}
	return vectors
}

// packed is what a Packer makes of messages that fit.
func packed(messages ...Message) []byte {
	var p Packer
	for i := range messages {
		if err := p.Add(&messages[i]); err != nil {
			panic(err)
		}
	}
	return bytes.Clone(p.Bytes())
}

// seal makes a pack of entries written by hand.
func seal(count uint32, entries string) []byte {
	b := binary.BigEndian.AppendUint32([]byte("\xf7WPK\x01\x00"), count)
	b = append(b, entries...)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
}

// reseal changes a byte and the checksum with it.
func reseal(pack []byte, at int, to byte) []byte {
	b := bytes.Clone(pack[:len(pack)-4])
	b[at] = to
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func flip(pack []byte, at int) []byte {
	b := bytes.Clone(pack)
	b[at] ^= 1
	return b
}

func (v *vector) bytes() []byte {
	if v.pack != nil {
		return v.pack
	}
	return packed(v.messages...)
}

// file is what testdata/NAME.json holds.
type file struct {
	About    string           `json:"about"`
	Encoding string           `json:"encoding,omitempty"`
	Error    string           `json:"error,omitempty"`
	Messages []map[string]any `json:"messages,omitempty"`
}

func (v *vector) file() file {
	f := file{About: v.about, Encoding: v.encoding}
	switch v.err {
	case ErrVersion:
		f.Error = "version"
	case ErrCorrupt:
		f.Error = "corrupt"
	}
	for i := range v.messages {
		f.Messages = append(f.Messages, toJSON(&v.messages[i]))
	}
	return f
}

// toJSON has a value of a header as [TYPE, VALUE] with the letter that is in the pack; bytes as hex, 64 bits as text.
func toJSON(m *Message) map[string]any {
	out := map[string]any{"body": hex.EncodeToString(m.Body)}
	for name, text := range map[string]string{"id": m.ID, "contentType": m.ContentType, "contentEncoding": m.ContentEncoding,
		"correlationId": m.CorrelationID, "replyTo": m.ReplyTo, "type": m.Type, "appId": m.AppID} {
		if text != "" {
			out[name] = text
		}
	}
	if !m.Timestamp.IsZero() {
		out["timestamp"] = m.Timestamp.Unix()
	}
	if m.Headers != nil {
		out["headers"] = tableJSON(m.Headers)
	}
	return out
}

func tableJSON(table map[string]any) map[string]any {
	out := map[string]any{}
	for key, value := range table {
		out[key] = valueJSON(value)
	}
	return out
}

func valueJSON(value any) []any {
	switch v := value.(type) {
	case nil:
		return []any{"V", nil}
	case string:
		return []any{"S", v}
	case []byte:
		return []any{"x", hex.EncodeToString(v)}
	case map[string]any:
		return []any{"F", tableJSON(v)}
	case []any:
		array := []any{}
		for _, e := range v {
			array = append(array, valueJSON(e))
		}
		return []any{"A", array}
	case int64:
		return []any{"l", strconv.FormatInt(v, 10)}
	case time.Time:
		return []any{"T", strconv.FormatInt(v.Unix(), 10)}
	}
	return []any{string(appendFixed(nil, value)[:1]), value}
}

// plain is v as JSON has it, for comparing.
func plain(t *testing.T, v any) any {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// readHex reads a file of hex with white space.
func readHex(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return b
}

func toHex(b []byte) string {
	var out strings.Builder
	for len(b) > 0 {
		n := min(len(b), 16)
		fmt.Fprintf(&out, "% x\n", b[:n])
		b = b[n:]
	}
	return out.String()
}

func TestVectors(t *testing.T) {
	for _, v := range vectors() {
		t.Run(v.name, func(t *testing.T) {
			base := filepath.Join("testdata", v.name)
			if *update {
				v.write(t, base)
			}
			var want any
			text, err := os.ReadFile(base + ".json")
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(text, &want); err != nil {
				t.Fatal(err)
			}
			if got := plain(t, v.file()); !reflect.DeepEqual(got, want) {
				t.Errorf("%s.json is not of this vector: -update, and say why it may change", base)
			}
			data, err := Decompress(v.encoding, readHex(t, base+".hex"), 0)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(data, v.bytes()) {
				t.Errorf("written as\n%swant\n%s", toHex(v.bytes()), toHex(data))
			}
			messages, err := Unpack(data, Limits{})
			if !errors.Is(err, v.err) || (err == nil) != (v.err == nil) {
				t.Fatalf("got the error %v, want %v", err, v.err)
			}
			if !reflect.DeepEqual(messages, v.messages) {
				t.Errorf("read as\n%+v\nwant\n%+v", messages, v.messages)
			}
		})
	}
}

// write keeps a compressed file that still says the same: what codecs write differs between their versions.
func (v *vector) write(t *testing.T, base string) {
	t.Helper()
	text, err := json.MarshalIndent(v.file(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(base+".json", append(text, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
	data := v.bytes()
	if v.encoding != "" {
		if _, err := os.Stat(base + ".hex"); err == nil {
			if old, err := Decompress(v.encoding, readHex(t, base+".hex"), 0); err == nil && bytes.Equal(old, data) {
				return
			}
		}
		codec := map[string]Codec{"gzip": Gzip, "zstd": Zstd}[v.encoding]
		var got string
		if data, got = Compress(codec, data, MinSize(0), MinSaving(0)); got != v.encoding {
			t.Fatalf("compressed as %q", got)
		}
	}
	if err := os.WriteFile(base+".hex", []byte(toHex(data)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A reader in another language, which shares no line with this one, must see the same in every vector.
func TestPythonReadsTheSame(t *testing.T) {
	args := []string{filepath.Join("testdata", "read.py")}
	var read []vector
	for _, v := range vectors() {
		name := filepath.Join("testdata", v.name+".hex")
		if v.encoding != "" { // decompression is not the reader's
			name = filepath.Join(t.TempDir(), v.name+".hex")
			if err := os.WriteFile(name, []byte(toHex(v.bytes())), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		args, read = append(args, name), append(read, v)
	}
	var stderr bytes.Buffer
	command := exec.Command("python3", args...)
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("python3, which this test needs: %v\n%s", err, stderr.String())
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(lines) != len(read) {
		t.Fatalf("%d answers for %d files", len(lines), len(read))
	}
	for i, v := range read {
		want := v.file()
		want.About, want.Encoding = "", ""
		expected := plain(t, want).(map[string]any)
		delete(expected, "about")
		var got any
		if err := json.Unmarshal([]byte(lines[i]), &got); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, any(expected)) {
			t.Errorf("%s: python reads\n%s\nwant\n%v", v.name, lines[i], expected)
		}
	}
}

// The page must show the bytes and the reader that are tested here.
func TestThePageShowsWhatIsTested(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := os.ReadFile(filepath.Join("testdata", "read.py"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "```python\n" + string(reader) + "```\n"; !strings.Contains(string(text), want) {
		t.Errorf("%s does not show testdata/read.py as it is", page)
	}
	if want := toHex(readHex(t, "testdata/example.hex")); !strings.Contains(string(text), "```\n"+want+"```\n") {
		t.Errorf("%s does not show the example:\n%s", page, want)
	}
}
