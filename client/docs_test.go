package warren

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDocumentedDefaults compares the tables of docs/client.md with what the code does without options.
func TestDocumentedDefaults(t *testing.T) {
	page, err := os.ReadFile("../docs/client.md")
	if _, repository := os.Stat("../go.mod"); errors.Is(err, fs.ErrNotExist) && repository != nil {
		t.Skip("the page is in the repository, and this is the module alone")
	}
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	_, tables, _ := strings.Cut(string(page), "## Options and their defaults")
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (.*?) \\|").FindAllStringSubmatch(tables, -1) {
		documented[row[1]] = row[2]
	}
	actual := defaults(t)
	for _, option := range options(t) {
		got, written := documented[option]
		want, known := actual[option]
		switch {
		case !written:
			t.Errorf("%s is not in docs/client.md", option)
		case known && got != want:
			t.Errorf("docs/client.md says that %s is %s by default: it is %s", option, got, want)
		}
		delete(documented, option)
	}
	for option := range documented {
		t.Errorf("docs/client.md has the option %s, which there is not", option)
	}
}

// defaults of the options that have a value.
func defaults(t *testing.T) map[string]string {
	t.Helper()
	p, err := newPublisherConfig(nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := newConsumerConfig("queue", nil)
	if err != nil {
		t.Fatal(err)
	}
	r := newRouterConfig(nil)
	l := r.link.WithDefaults()
	if p.attempts != 0 || p.codec != 0 || len(p.pack)+len(p.connect)+len(c.args)+len(r.hooks) > 0 || c.target != 0 ||
		c.class+c.deadLetterTo != "" {
		t.Error("an option that has no value by default has one")
	}
	out := map[string]string{}
	for name, value := range map[string]any{
		"Heartbeat": l.Heartbeat, "Reconnect": fmt.Sprintf("%s, %s", l.MinBackoff, l.MaxBackoff),
		"AutoBatch": p.auto, "BatchMaxBytes": p.maxBytes, "BatchMaxDelay": p.maxDelay, "BatchMaxCount": p.maxCount, "BufferBytes": p.bound,
		"FailWhenFull": p.fail, "ConfirmWindow": p.window, "PublishChannels": p.channels, "ConfirmTimeout": p.confirmTimeout,
		"AllowUnroutable": p.unroutable, "BatchSize": c.size, "BatchWait": c.wait, "Workers": c.workers,
		"AckOrdered": c.ack == ackOrdered, "AckEach": c.ack == ackEach, "Prefetch": c.prefetch, "HandlerTimeout": c.handlerTimeout,
		"ConsumerTimeout": c.consumerTimeout, "MaxAttempts": c.maxAttempts, "QuarantineAfter": c.quarantine,
		"RetryDelay": c.retryDelay, "DrainTimeout": c.drain, "DeadLetterByReject": c.byReject, "MaxUnpacked": c.maxUnpacked,
		"KeepEncoding": c.keepEncoding, "TargetLatency": false, "Compress": false,
	} {
		out[name] = strings.NewReplacer("true", "on", "false", "off").Replace(fmt.Sprint(value))
	}
	return out
}

// options are the names of all exported functions that return one.
func options(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !f.Name.IsExported() || f.Type.Results == nil || len(f.Type.Results.List) != 1 {
				continue
			}
			if result, ok := f.Type.Results.List[0].Type.(*ast.Ident); ok && strings.HasSuffix(result.Name, "Option") {
				names = append(names, f.Name.Name)
			}
		}
	}
	return names
}
