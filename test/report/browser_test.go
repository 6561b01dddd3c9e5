//go:build browser

package report_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"
)

// browsers that are looked for when WARREN_BROWSER names none.
var browsers = []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable"}

// program of the browser. There is no skipping: a page that nobody looked at is not tested.
func program() (string, error) {
	if named := os.Getenv("WARREN_BROWSER"); named != "" {
		return exec.LookPath(named)
	}
	for _, name := range browsers {
		if found, err := exec.LookPath(name); err == nil {
			return found, nil
		}
	}
	return "", fmt.Errorf("there is no headless Chromium: `make test-browser` and `go run ./hack/local browser` install one; "+
		"elsewhere set WARREN_BROWSER to the program (looked for: %v)", browsers)
}

// browser is spoken to by the DevTools protocol over two pipes, so that it needs no port and no library.
type browser struct {
	in   io.WriteCloser
	done chan struct{}
	mu   sync.Mutex
	next int
	// waiting for the answer to a call, by its number.
	waiting map[int]chan message
	events  map[string]func(message) // by session
	err     error
}

type message struct {
	ID      int             `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Mistake json.RawMessage `json:"error,omitempty"`
}

// patience is how long one answer may take on a busy machine.
const patience = time.Minute

// start runs a browser until the test ends.
func start(t *testing.T) *browser {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	theirs, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, ours, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	command := exec.Command(path, "--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--no-first-run", "--hide-scrollbars", "--disable-background-networking", "--user-data-dir="+t.TempDir(), "about:blank")
	command.ExtraFiles = []*os.File{theirs, ours}
	command.Stderr = &said
	if err := command.Start(); err != nil {
		t.Fatalf("%s does not start: %v", path, err)
	}
	_, _ = theirs.Close(), ours.Close()
	b := &browser{in: in, done: make(chan struct{}), waiting: map[int]chan message{}, events: map[string]func(message){}}
	go b.listen(out)
	t.Cleanup(func() {
		_, _ = b.call("", "Browser.close", nil)
		_ = in.Close()
		<-b.done
		_ = command.Wait()
		if t.Failed() {
			t.Logf("the browser said:\n%s", said.String())
		}
	})
	return b
}

func (b *browser) listen(out io.Reader) {
	defer close(b.done)
	reader := bufio.NewReader(out)
	for {
		text, err := reader.ReadBytes(0)
		if err != nil {
			b.mu.Lock()
			b.err = fmt.Errorf("the browser has ended: %w", err)
			for _, waits := range b.waiting {
				close(waits)
			}
			b.waiting = map[int]chan message{}
			b.mu.Unlock()
			return
		}
		var m message
		if json.Unmarshal(text[:len(text)-1], &m) != nil {
			continue
		}
		b.mu.Lock()
		waits, event := b.waiting[m.ID], b.events[m.Session]
		if m.ID != 0 {
			delete(b.waiting, m.ID)
		}
		b.mu.Unlock()
		switch {
		case m.ID != 0 && waits != nil:
			waits <- m
		case m.ID == 0 && event != nil:
			event(m)
		}
	}
}

// call does one call and waits for its answer.
func (b *browser) call(session, method string, params any) (json.RawMessage, error) {
	asked, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	if params == nil {
		asked = []byte("{}")
	}
	b.mu.Lock()
	if b.err != nil {
		b.mu.Unlock()
		return nil, b.err
	}
	b.next++
	id, waits := b.next, make(chan message, 1)
	b.waiting[id] = waits
	text, err := json.Marshal(message{ID: id, Session: session, Method: method, Params: asked})
	if err == nil {
		_, err = b.in.Write(append(text, 0))
	}
	b.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	select {
	case m, ok := <-waits:
		switch {
		case !ok:
			return nil, fmt.Errorf("%s: the browser has ended", method)
		case m.Mistake != nil:
			return nil, fmt.Errorf("%s: %s", method, m.Mistake)
		}
		return m.Result, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: no answer within %s", method, patience)
	}
}

// tab is one page on one kind of screen.
type tab struct {
	t       *testing.T
	b       *browser
	session string
	mu      sync.Mutex
	loaded  chan struct{}
	// faults are errors and warnings of the console, exceptions, and what the page asked of anybody but itself.
	faults []string
	own    string
}

// screen is what a reader looks at.
type screen struct {
	name          string
	width, height int
	mobile, dark  bool
}

func (b *browser) open(t *testing.T, address string, s screen) *tab {
	t.Helper()
	tb := &tab{t: t, b: b, loaded: make(chan struct{}), own: address}
	var target struct {
		TargetID string `json:"targetId"`
	}
	tb.into(&target, "", "Target.createTarget", map[string]any{"url": "about:blank", "width": s.width, "height": s.height})
	t.Cleanup(func() { _, _ = b.call("", "Target.closeTarget", map[string]any{"targetId": target.TargetID}) })
	var attached struct {
		SessionID string `json:"sessionId"`
	}
	tb.into(&attached, "", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true})
	tb.session = attached.SessionID
	b.mu.Lock()
	b.events[tb.session] = tb.event
	b.mu.Unlock()
	scheme := "light"
	if s.dark {
		scheme = "dark"
	}
	for _, method := range []string{"Network.enable", "Runtime.enable", "Log.enable", "Page.enable"} {
		tb.do(method, nil)
	}
	tb.do("Emulation.setDeviceMetricsOverride", map[string]any{
		"width": s.width, "height": s.height, "deviceScaleFactor": 1, "mobile": s.mobile,
	})
	tb.do("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}})
	tb.do("Page.navigate", map[string]any{"url": address})
	select {
	case <-tb.loaded:
	case <-time.After(patience):
		t.Fatalf("%s is not loaded within %s", address, patience)
	}
	return tb
}

func (tb *tab) do(method string, params any) { tb.t.Helper(); tb.into(nil, tb.session, method, params) }

func (tb *tab) into(result any, session, method string, params any) {
	tb.t.Helper()
	text, err := tb.b.call(session, method, params)
	if err == nil && result != nil {
		err = json.Unmarshal(text, result)
	}
	if err != nil {
		tb.t.Fatal(err)
	}
}

func (tb *tab) event(m message) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	switch m.Method {
	case "Page.loadEventFired":
		select {
		case <-tb.loaded:
		default:
			close(tb.loaded)
		}
	case "Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded", "Page.javascriptDialogOpening":
		tb.faults = append(tb.faults, fmt.Sprintf("%s: %s", m.Method, m.Params))
	case "Network.requestWillBeSent":
		var sent struct {
			Request struct {
				URL string `json:"url"`
			} `json:"request"`
		}
		if err := json.Unmarshal(m.Params, &sent); err != nil || sent.Request.URL != tb.own {
			tb.faults = append(tb.faults, fmt.Sprintf("the page asked for %s (%v)", sent.Request.URL, err))
		}
	}
}

// complaints so far.
func (tb *tab) complaints() []string {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	return slices.Clone(tb.faults)
}

// evaluate an expression on the page.
func (tb *tab) evaluate(expression string, result any) {
	tb.t.Helper()
	var answer struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		Exception json.RawMessage `json:"exceptionDetails"`
	}
	tb.into(&answer, tb.session, "Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true})
	err := json.Unmarshal(answer.Result.Value, result)
	if answer.Exception != nil {
		err = errors.New(string(answer.Exception))
	}
	if err != nil {
		tb.t.Fatalf("%s: %v", expression, err)
	}
}

// picture of the whole page, as PNG.
func (tb *tab) picture() []byte {
	tb.t.Helper()
	var answer struct {
		Data string `json:"data"`
	}
	tb.into(&answer, tb.session, "Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true})
	picture, err := base64.StdEncoding.DecodeString(answer.Data)
	if err != nil {
		tb.t.Fatal(err)
	}
	return picture
}
