package management

import (
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/warren-mq/warren/internal/broker"
)

// path is the path of a call below /api: the words of the API and the names of objects.
type path struct {
	words []segment
}

type segment struct {
	text string
	name bool // an object's name: anything a user chose
}

// at begins a path with words of the API itself.
func at(words ...string) path {
	p := path{}
	for _, word := range words {
		p.words = append(p.words, segment{text: word})
	}
	return p
}

// named adds the name of an object.
func (p path) named(names ...string) path {
	out := path{words: append([]segment(nil), p.words...)}
	for _, name := range names {
		out.words = append(out.words, segment{text: name, name: true})
	}
	return out
}

// onto puts the path below base. Every segment is escaped once, and the escaped form is what goes over the wire.
func (p path) onto(base *url.URL, query url.Values) *url.URL {
	decoded, escaped := "/api", "/api"
	for _, word := range p.words {
		decoded += "/" + word.text
		escaped += "/" + url.PathEscape(word.text)
	}
	return &url.URL{Scheme: base.Scheme, Host: base.Host, Path: decoded, RawPath: escaped, RawQuery: query.Encode()}
}

// unaddressable says why the API cannot address the path, or "". The broker resolves "." and ".." even when they
// are escaped: asking for queue ".." would list all queues.
func (p path) unaddressable() string {
	for _, word := range p.words {
		switch {
		case !word.name:
		case word.text == "":
			return "the management API cannot address an empty name"
		case word.text == "." || word.text == "..":
			return fmt.Sprintf("the management API cannot address the name %q: it reads it as a step in the path", word.text)
		case !utf8.ValidString(word.text):
			return fmt.Sprintf("the management API cannot address the name %q: it is not UTF-8", word.text)
		}
	}
	return ""
}

// escapes tells whether a name holds a character that a proxy may wrongly decode on the way.
func (p path) escapes(characters string) bool {
	for _, word := range p.words {
		if word.name && strings.ContainsAny(word.text, characters) {
			return true
		}
	}
	return false
}

func refused(op, reason string) error {
	return &broker.Error{Kind: broker.Invalid, Op: op, Reason: reason}
}
