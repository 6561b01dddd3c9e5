package broker

import "testing"

func TestParseVersion(t *testing.T) {
	for _, c := range []struct {
		text string
		want Version
		back string
	}{
		{"4.3.6", Version{4, 3, 6}, "4.3.6"},
		{"3.10.8-1.1+deb12u1", Version{3, 10, 8}, "3.10.8"},
		{"4.3.6+dev", Version{4, 3, 6}, "4.3.6"},
		{"4.3", Version{4, 3, -1}, "4.3"},
		{"3.13.0", Version{3, 13, 0}, "3.13.0"},
	} {
		got, err := ParseVersion(c.text)
		if err != nil || got != c.want || got.String() != c.back {
			t.Errorf("%q: got %v (%s), %v", c.text, got, got, err)
		}
	}
	for _, text := range []string{"", "4", "4.", "4.x", "v4.3.6", "4.3.6.1", "latest", "-4.3", "4.-3", "4.3.99999"} {
		if got, err := ParseVersion(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
}

func TestUnknownPatchCountsAsTheNewest(t *testing.T) {
	for _, c := range []struct {
		v, w Version
		want bool
	}{
		{Version{4, 3, -1}, Version{4, 3, 1}, true},
		{Version{4, 3, 0}, Version{4, 3, 1}, false},
		{Version{4, 3, 1}, Version{4, 3, 1}, true},
		{Version{3, 13, 9}, Version{4, 0, 0}, false},
		{Version{4, 0, 0}, Version{3, 13, 9}, true},
		{Version{3, 9, 9}, Version{3, 10, 0}, false},
	} {
		if got := c.v.reaches(c.w); got != c.want {
			t.Errorf("%v reaches %v: got %v", c.v, c.w, got)
		}
	}
}
