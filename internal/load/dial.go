package load

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	// handshakeLimit bounds the way from dialling to an open AMQP connection.
	handshakeLimit = 30 * time.Second
	// sendBuffer of a socket, in bytes.
	sendBuffer = 256 << 10
)

// Endpoint is where a broker listens for AMQP, and who asks. Several hosts are taken in turn.
type Endpoint struct {
	Hosts []string // host:port
	// TLS, when set, is for all hosts; each is checked under its own name unless TLS names one.
	TLS *tls.Config
	// CAFile is where the certificates of TLS are, "" for the system's: the client library reads them itself.
	CAFile             string
	Username, Password string
	VHost              string
}

// ParseEndpoint reads URIs such as amqp://host:5672/vhost, separated by commas, all of them with TLS (amqps) or none. User and password in the first one are
// taken, so that they may come from a file; its path is the vhost. Errors never show the text.
func ParseEndpoint(text string) (Endpoint, error) {
	e := Endpoint{VHost: "/"}
	for i, one := range strings.Split(text, ",") {
		u, err := url.Parse(strings.TrimSpace(one))
		if err != nil || (u.Scheme != "amqp" && u.Scheme != "amqps") || u.Hostname() == "" {
			return Endpoint{}, errors.New("the AMQP URI must be amqp://HOST[:PORT] or amqps://HOST[:PORT]")
		}
		port := u.Port()
		if port == "" {
			port = map[string]string{"amqp": "5672", "amqps": "5671"}[u.Scheme]
		}
		e.Hosts = append(e.Hosts, net.JoinHostPort(u.Hostname(), port))
		if i > 0 {
			if (u.Scheme == "amqps") != (e.TLS != nil) {
				return Endpoint{}, errors.New("of the AMQP URIs some are amqp and some amqps: want one of the two")
			}
			continue
		}
		if u.Scheme == "amqps" {
			e.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		if u.User != nil {
			e.Username = u.User.Username()
			e.Password, _ = u.User.Password()
		}
		if path := strings.TrimPrefix(u.Path, "/"); path != "" {
			e.VHost = path
		}
	}
	return e, nil
}

// as is the endpoint for another user and vhost.
func (e Endpoint) as(username, password, vhost string) Endpoint {
	e.Username, e.Password, e.VHost = username, password, vhost
	return e
}

// link is an open connection with its wire.
type link struct {
	*amqp.Connection
	wire     *wire
	channels uint16 // opened so far: amqp091-go numbers them from 1
	// publishers on it.
	publishers int

	blockedAt  atomic.Int64 // since when the broker blocks it, in ns of the run's clock; 0 when it does not
	blockedFor atomic.Int64 // ns of earlier blocks
}

// blockedSince notes the start or the end of a block.
func (l *link) blockedSince(now int64, active bool) {
	if began := l.blockedAt.Swap(0); began > 0 {
		l.blockedFor.Add(now - began)
	}
	if active {
		l.blockedAt.Store(now)
	}
}

// blocked is how long it was blocked in all, in ns.
func (l *link) blocked(now int64) int64 {
	total := l.blockedFor.Load()
	if began := l.blockedAt.Load(); began > 0 {
		total += now - began
	}
	return total
}

// dial opens connection number n, which decides the host.
func (e Endpoint) dial(ctx context.Context, n int, name string, readBuffer int) (*link, error) {
	l := &link{}
	address := e.Hosts[n%len(e.Hosts)]
	config := amqp.Config{
		Vhost: e.VHost, Heartbeat: 30 * time.Second, Locale: "en_US",
		SASL:       []amqp.Authentication{&amqp.PlainAuth{Username: e.Username, Password: e.Password}},
		Properties: amqp.Table{"product": "Warren benchmark", "connection_name": name},
		Dial: func(string, string) (net.Conn, error) {
			c, err := e.connect(ctx, address)
			if err != nil {
				return nil, err
			}
			l.wire = newWire(c, readBuffer)
			return l.wire, nil
		},
	}
	var err error
	if l.Connection, err = amqp.DialConfig("amqp://"+address, config); err != nil {
		return nil, fmt.Errorf("connection to %s: %w", address, err)
	}
	return l, nil
}

// connect makes the TCP or TLS connection. TLS is below the wire, so that a write is one record.
func (e Endpoint) connect(ctx context.Context, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: handshakeLimit}
	c, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		// What waits in the kernel is neither at the broker nor seen by anybody: by default it may be megabytes.
		if err := tcp.SetWriteBuffer(sendBuffer); err != nil {
			return nil, err
		}
	}
	if err := c.SetDeadline(time.Now().Add(handshakeLimit)); err != nil {
		return nil, err
	}
	if e.TLS == nil {
		return c, nil
	}
	config := e.TLS
	if config.ServerName == "" {
		config = config.Clone()
		if config.ServerName, _, err = net.SplitHostPort(address); err != nil {
			return nil, err
		}
	}
	secure := tls.Client(c, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = c.Close()
		return nil, err
	}
	return secure, nil
}

// open opens a channel and tells its number.
func (l *link) open() (*amqp.Channel, uint16, error) {
	ch, err := l.Channel()
	if err != nil {
		return nil, 0, err
	}
	l.channels++
	return ch, l.channels, nil
}

// frameMax is the largest frame in bytes that both sides agreed on.
func (l *link) frameMax() int {
	if l.Config.FrameSize <= 0 {
		return 128 << 10
	}
	return l.Config.FrameSize
}
