package policy

import (
	"encoding/json"
	"os"
	"testing"
)

func TestMatcher(t *testing.T) {
	for _, c := range []struct {
		name, pattern, queue string
		matched, known       bool
	}{
		{"C3: not anchored, the name itself", "billing", "billing", true, true},
		{"C3: not anchored, behind", "billing", "billing.dlq", true, true},
		{"C3: not anchored, before", "billing", "prebilling", true, true},
		{"C3: anchored", "^billing$", "billing.dlq", false, true},
		{"C3: the empty pattern matches all", "", "x", true, true},
		{"C3: L7, three characters of nine bytes", "^...$", "日本語", false, true},
		{"C3: L7, its nine bytes", "^.........$", "日本語", true, true},
		{"C3: a name beyond ASCII", "^日本", "日本語", true, true},
		{"C3: a class of bytes", "^[é]+$", "é", true, true},
		{"C3: L6, look-behind", "^(.*(?<!err))?$", "x", false, false},
		{"C3: look-ahead", "^(?!amq)", "x", false, false},
		{"C3: does not compile", "^(unclosed", "x", false, false},
		{"C3: folding", "(?i)BILLING", "billing", true, true},
		{"C3: folding beyond ASCII", "(?i)É", "é", false, false},
		{"D2: a final newline and $", "^tail$", "tail\n", false, false},
		{"D2: a final newline without $", "^tail", "tail\n", true, true},
		{"D2: lines", "(?m)^$", "a\nb", false, false},
		{"C3: Unicode properties are bytes to the broker", `\p{L}`, "x", false, false},
		{"C3: \\w is Latin-1 to the broker", `^\w+$`, "görev", false, false},
		{"C3: \\w in ASCII", `^\w+$`, "abc", true, true},
		{"C3: [[:punct:]] differs between its versions", `[[:punct:]]`, "é", false, false},
		{"C3: \\v is a class to the broker", `\v`, "a", false, false},
		{"C3: {,3} is a count since 4.3's Erlang only", `^a{,3}b$`, "aab", false, false},
		{"C3: { 1, 3 } as well", `^a{ 1, 3 }b$`, "aab", false, false},
		{"C3: { 2 } as well", `^a{ 2 }b$`, "aab", false, false},
		{"C3: {1,3} is one everywhere", `^a{1,3}b$`, "aab", true, true},
		{"C3: back references", `(a)\1`, "aa", false, false},
		{"D2: quoted", `^\Qa+b\E$`, "a+b", true, true},
		{"D2: a slash", `^a/b$`, "a/b", true, true},
		{"D2: an escaped slash is another name", `^a/b$`, "a%2Fb", false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			matched, known := NewMatcher(c.pattern).Match(c.queue)
			if matched != c.matched || known != c.known {
				t.Errorf("matched %v, known %v; want %v, %v", matched, known, c.matched, c.known)
			}
		})
	}
}

// C3: what Go claims to know is what the broker's engine says, in the oldest and in the newest version.
func TestTheMatcherAgreesWithTheBrokersEngine(t *testing.T) {
	text, err := os.ReadFile("testdata/pcre.json")
	if err != nil {
		t.Fatal(err)
	}
	var recorded struct {
		Names   []string
		Answers []struct {
			Pattern string
			Old     string `json:"3.10.8"`
			New     string `json:"4.3.6"`
		}
	}
	if err := json.Unmarshal(text, &recorded); err != nil {
		t.Fatal(err)
	}
	answered := 0
	for _, row := range recorded.Answers {
		matcher := NewMatcher(row.Pattern)
		for i, name := range recorded.Names {
			matched, known := matcher.Match(name)
			if !known {
				continue
			}
			answered++
			want := byte('0')
			if matched {
				want = '1'
			}
			if row.Old[i] != want || row.New[i] != want {
				t.Errorf("%q on %q: Go says %c, 3.10.8 %c, 4.3.6 %c", row.Pattern, name, want, row.Old[i], row.New[i])
			}
		}
	}
	// A matcher that knows nothing would agree with everything.
	if all := len(recorded.Answers) * len(recorded.Names); answered < all/2 {
		t.Errorf("only %d of %d questions were answered", answered, all)
	}
}
