package envelope

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func genValue(depth int) *rapid.Generator[any] {
	simple := []*rapid.Generator[any]{
		rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.Int8().AsAny(), rapid.Uint8().AsAny(), rapid.Int16().AsAny(),
		rapid.Uint16().AsAny(), rapid.Int32().AsAny(), rapid.Uint32().AsAny(), rapid.Int64().AsAny(), rapid.Float32().AsAny(),
		rapid.Float64().AsAny(), rapid.String().AsAny(), genTime().AsAny(),
		rapid.Custom(func(t *rapid.T) []byte { return rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "bytes") }).AsAny(),
	}
	if depth > 0 {
		simple = append(simple,
			rapid.Custom(func(t *rapid.T) []any { return rapid.SliceOfN(genValue(depth-1), 0, 4).Draw(t, "array") }).AsAny(),
			genTable(depth-1).AsAny())
	}
	return rapid.OneOf(simple...)
}

func genTable(depth int) *rapid.Generator[map[string]any] {
	return rapid.MapOfN(rapid.StringN(0, 20, maxShort), genValue(depth), 0, 5)
}

func genTime() *rapid.Generator[time.Time] {
	return rapid.Custom(func(t *rapid.T) time.Time {
		return time.Unix(rapid.Int64Range(-1<<40, 1<<40).Draw(t, "seconds"), 0).UTC()
	})
}

func genMessage() *rapid.Generator[Message] {
	return rapid.Custom(func(t *rapid.T) Message {
		var m Message
		for _, text := range m.texts() {
			*text = rapid.StringN(0, -1, maxShort).Draw(t, "text")
		}
		if rapid.Bool().Draw(t, "has a timestamp") {
			m.Timestamp = genTime().Draw(t, "timestamp")
		}
		if table := genTable(3).Draw(t, "headers"); len(table) > 0 {
			m.Headers = table
		}
		if body := rapid.SliceOfN(rapid.Byte(), 0, 600).Draw(t, "body"); len(body) > 0 {
			m.Body = body
		}
		return m
	})
}

func TestWhatIsPackedIsUnpacked(t *testing.T) {
	var p Packer // used again, as publishers do
	rapid.Check(t, func(t *rapid.T) {
		p.Reset()
		messages := rapid.SliceOfN(genMessage(), 1, 8).Draw(t, "messages")
		for i := range messages {
			_, before := p.Len()
			size, err := p.Size(&messages[i])
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Add(&messages[i]); err != nil {
				t.Fatal(err)
			}
			n, after := p.Len()
			if n != i+1 || after != before+size || after != len(p.Bytes()) {
				t.Fatalf("message %d: %d bytes and %d became %d, the pack has %d", n, before, size, after, len(p.Bytes()))
			}
		}
		got, err := Unpack(p.Bytes(), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, messages) {
			t.Fatalf("got %+v, want %+v", got, messages)
		}
		if !bytes.Equal(packed(got...), p.Bytes()) {
			t.Fatal("the same messages give other bytes")
		}
	})
}

type namedTable map[string]any

func TestHeadersOfOtherTypes(t *testing.T) {
	m := Message{Headers: namedTable{
		"int": 5, "large": math.MaxInt, "table": namedTable{"a": namedTable{}}, "nil table": namedTable(nil),
		"nil array": []any(nil), "nil bytes": []byte(nil), "time": time.Unix(5, 999_999_999).In(time.FixedZone("", 3600)),
	}}
	want := map[string]any{
		"int": int32(5), "large": int64(math.MaxInt), "table": map[string]any{"a": map[string]any{}},
		"nil table": map[string]any{}, "nil array": []any{}, "nil bytes": []byte{}, "time": time.Unix(5, 0).UTC(),
	}
	got, err := Unpack(packed(m), Limits{})
	if err != nil || !reflect.DeepEqual(got[0].Headers, want) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestNotPackable(t *testing.T) {
	type decimal struct{ Scale, Value int }
	var itself []any
	itself = append(itself, nil)
	itself[0] = itself
	wide := make([]any, 30_000)
	manifold := []any{wide, wide, wide}
	header := func(v any) Message { return Message{Headers: map[string]any{"h": v}} }
	for _, c := range []struct {
		name string
		m    Message
		want error
	}{
		{"a decimal", header(decimal{2, 100}), ErrNotPackable},
		{"uint64", header(uint64(1)), ErrNotPackable},
		{"uint", header(uint(1)), ErrNotPackable},
		{"a map of strings", header(map[string]string{}), ErrNotPackable},
		{"a pointer", header(&struct{}{}), ErrNotPackable},
		{"within an array", header([]any{"a", []string{}}), ErrNotPackable},
		{"a long name", Message{Headers: map[string]any{strings.Repeat("n", 256): 1}}, ErrNotPackable},
		{"a long id", Message{ID: strings.Repeat("n", 256)}, ErrNotPackable},
		{"a long app", Message{AppID: strings.Repeat("n", 256)}, ErrNotPackable},
		{"an array in itself", header(itself), ErrTooLarge},
		{"many values by one array", header(manifold), ErrTooLarge},
		{"a large text", header(strings.Repeat("x", DefaultMaxBytes)), ErrTooLarge},
		{"a large body", Message{Body: make([]byte, DefaultMaxBytes)}, ErrTooLarge},
	} {
		t.Run(c.name, func(t *testing.T) {
			var p Packer
			if err := p.Add(&Message{ID: "first"}); err != nil {
				t.Fatal(err)
			}
			before := bytes.Clone(p.Bytes())
			if _, err := p.Size(&c.m); !errors.Is(err, c.want) {
				t.Errorf("Size: %v", err)
			}
			if err := p.Add(&c.m); !errors.Is(err, c.want) {
				t.Errorf("Add: %v", err)
			}
			if !bytes.Equal(p.Bytes(), before) {
				t.Error("the pack changed")
			}
		})
	}
}

func TestAFullPackStaysWhole(t *testing.T) {
	m := Message{ID: "0123", Headers: map[string]any{"a": 1, "b": []any{2}}, Body: make([]byte, 50)}
	size, err := new(Packer).Size(&m)
	if err != nil {
		t.Fatal(err)
	}
	for name, limits := range map[string]Limits{
		"messages": {MaxMessages: 3},
		"bytes":    {MaxBytes: Overhead + 3*size},
		"values":   {MaxHeaderValues: 3*3 + 2},
	} {
		t.Run(name, func(t *testing.T) {
			p := Packer{Limits: limits}
			for range 3 {
				if err := p.Add(&m); err != nil {
					t.Fatal(err)
				}
			}
			if err := p.Add(&m); !errors.Is(err, ErrTooLarge) {
				t.Fatalf("got %v", err)
			}
			if got, err := Unpack(p.Bytes(), limits); err != nil || len(got) != 3 {
				t.Errorf("a reader with the same limits: %d messages, %v", len(got), err)
			}
			p.Reset()
			if n, bytes := p.Len(); n != 0 || bytes != Overhead || p.Bytes() != nil {
				t.Errorf("after Reset: %d messages, %d bytes, %v", n, bytes, p.Bytes())
			}
			if err := p.Add(&m); err != nil {
				t.Errorf("after Reset: %v", err)
			}
		})
	}
}

func TestLimitsOfTheReader(t *testing.T) {
	deep := any("bottom")
	for range 9 {
		deep = []any{deep}
	}
	pack := packed(Message{Headers: map[string]any{"deep": deep}}, Message{Headers: map[string]any{"a": nil}}) // 10 levels, 11 values
	for _, c := range []struct {
		name   string
		limits Limits
		want   error
	}{
		{"just enough", Limits{MaxBytes: len(pack), MaxMessages: 2, MaxHeaderValues: 11, MaxHeaderDepth: 10}, nil},
		{"bytes", Limits{MaxBytes: len(pack) - 1}, ErrTooLarge},
		{"messages", Limits{MaxMessages: 1}, ErrTooLarge},
		{"values", Limits{MaxHeaderValues: 10}, ErrTooLarge},
		{"depth", Limits{MaxHeaderDepth: 9}, ErrTooLarge},
	} {
		if _, err := Unpack(pack, c.limits); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
	}
}

func TestEveryTruncationAndEveryFlippedBitIsFound(t *testing.T) {
	for _, v := range vectors() {
		if v.err != nil {
			continue
		}
		pack := v.bytes()
		for i := range pack {
			if m, err := Unpack(pack[:i], Limits{}); !errors.Is(err, ErrCorrupt) || m != nil {
				t.Fatalf("%s, the first %d bytes: %v", v.name, i, err)
			}
			for bit := range 8 {
				broken := bytes.Clone(pack)
				broken[i] ^= 1 << bit
				want := ErrCorrupt
				if i == 4 || i == 5 {
					want = ErrVersion
				}
				if m, err := Unpack(broken, Limits{}); !errors.Is(err, want) || m != nil {
					t.Fatalf("%s, bit %d of byte %d: %v", v.name, bit, i, err)
				}
			}
		}
		// Within a good checksum as well: whoever seals it may lie.
		inner := string(pack[headerSize : len(pack)-checksumSize])
		for i := range inner {
			if _, err := Unpack(seal(uint32(len(v.messages)), inner[:i]), Limits{}); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("%s, sealed after %d bytes: %v", v.name, i, err)
			}
		}
	}
}

// A pack that declares much must not cost much.
func TestHostilePacksCostLittle(t *testing.T) {
	fields := func(element string, n int) []byte { // an array of n elements as the header "a"
		array := strings.Repeat(element, n)
		table := "\x01aA" + be32(len(array)) + array
		headers := be32(len(table)) + table
		property := "\x09" + varint(len(headers)) + headers
		return seal(1, varint(len(property))+property+"\x00")
	}
	for _, c := range []struct {
		name  string
		pack  []byte
		bytes uint64
	}{
		{"a count of 4 Gi", seal(math.MaxUint32, strings.Repeat("\x00\x00", 1000)), 64 << 10},
		{"a million messages of nothing", seal(1<<20, strings.Repeat("\x00\x00", 1<<20)), 64 << 10},
		{"a body of 4 GiB", seal(1, "\x00\xff\xff\xff\xff\x0f"), 64 << 10},
		{"a text of 4 GiB", seal(1, "\x06\x01\xff\xff\xff\xff\x0f\x00"), 64 << 10},
		{"a table of 4 GiB", seal(1, "\x06\x09\x04\xff\xff\xff\xff\x00"), 64 << 10},
		{"a million nothings", fields("V", 1<<20), 8 << 20},
		{"a million tables", fields("F\x00\x00\x00\x00", 1<<20), 24 << 20},
		{"half a million tables of one", fields("F\x00\x00\x00\x02\x00V", 1<<19), 40 << 20},
		{"arrays in arrays", fields(nested(100_000), 1), 4 << 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := allocated(func() {
				if _, err := Unpack(c.pack, Limits{}); !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrTooLarge) {
					t.Error(err)
				}
			})
			if got > c.bytes {
				t.Errorf("%d bytes allocated, want %d at most", got, c.bytes)
			}
		})
	}
}

// allocated is how many bytes f takes, those that it gives back included.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func nested(n int) string {
	var b strings.Builder
	for i := n; i > 0; i-- {
		b.WriteString("A" + be32(5*(i-1)))
	}
	return b.String()
}

func be32(n int) string { return string([]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}) }

func varint(n int) string {
	var b []byte
	for ; n >= 0x80; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return string(append(b, byte(n)))
}

func TestBodiesArePartsOfTheData(t *testing.T) {
	pack := packed(Message{Body: []byte("one")}, Message{Body: []byte("two")})
	messages, err := Unpack(pack, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	_ = append(messages[0].Body, "xxxxxxxx"...)
	if string(messages[1].Body) != "two" {
		t.Error("appending to one body wrote over the next")
	}
	pack[headerSize+2] = 'O'
	if string(messages[0].Body) != "One" {
		t.Error("the body is a copy")
	}
}

func TestPackingAllocatesNothing(t *testing.T) {
	m := Message{ID: "id", Timestamp: time.Unix(1, 0), Headers: map[string]any{"b": "x", "a": map[string]any{"c": int32(1)}}, Body: make([]byte, 100)}
	var p Packer
	if n := testing.AllocsPerRun(100, func() {
		p.Reset()
		for range 10 {
			if err := p.Add(&m); err != nil {
				t.Fatal(err)
			}
		}
		_ = p.Bytes()
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
