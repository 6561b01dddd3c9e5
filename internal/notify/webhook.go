// Package notify tells people of what happened, through a webhook. The address is a secret: no error holds any of it.
package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Webhook posts texts.
type Webhook struct {
	// Client is used for all posts; the default checks certificates, follows no redirect and gives up after Timeout.
	Client *http.Client
}

// Timeout of one post.
const Timeout = 5 * time.Second

// New makes a Webhook that checks certificates and follows no redirect: it would carry the text to an address that nobody
// chose.
func New() Webhook {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.IdleConnTimeout = 10, 30*time.Second
	return Webhook{Client: &http.Client{
		Transport:     transport,
		Timeout:       Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Post sends the text as {"text": …}, which the webhooks of most chats take, together with facts for programs. It makes one
// attempt.
func (w Webhook) Post(ctx context.Context, address, text string, facts map[string]string) error {
	target, err := url.Parse(strings.TrimSpace(address))
	if err != nil || target.Scheme != "https" || target.Host == "" {
		return errors.New("the Secret holds no https address")
	}
	fields := map[string]string{}
	for name, value := range facts {
		fields[name] = value
	}
	fields["text"] = text
	body, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), bytes.NewReader(body))
	if err != nil {
		return errors.New("the address cannot be used")
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := w.Client.Do(request)
	if err != nil {
		return errors.New(reasonOf(err))
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10)) // so that the connection can be used again
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return fmt.Errorf("the channel answered %d", response.StatusCode)
	}
	return nil
}

// reasonOf an error of the transport, without the address and the host, which are in its text.
func reasonOf(err error) string {
	var (
		dns    *net.DNSError
		remote *net.OpError
		broken net.Error
	)
	switch {
	case errors.As(err, &dns):
		return "the channel's host name cannot be resolved"
	case errors.As(err, &broken) && broken.Timeout():
		return fmt.Sprintf("the channel did not answer within %s", Timeout)
	case strings.Contains(err.Error(), "tls: ") || strings.Contains(err.Error(), "x509: "):
		return "the channel's certificate cannot be trusted"
	case errors.As(err, &remote):
		return "the channel cannot be reached"
	}
	return "the channel broke the connection off"
}
