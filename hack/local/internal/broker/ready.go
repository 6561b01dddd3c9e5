package broker

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"
)

// awaitReady waits until the management API answers the user and the metrics are served, as far as the
// plugins for them are on.
func awaitReady(rec record) error {
	last := fmt.Errorf("never asked")
	for end := time.Now().Add(startLimit); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if !rec.Identity.Alive() {
			return fmt.Errorf("the broker has ended")
		}
		if last = probes(rec); last == nil {
			return nil
		}
	}
	return fmt.Errorf("not ready after %s: %w", startLimit, last)
}

// probes asks every listener that must answer.
func probes(rec record) error {
	if slices.Contains(rec.Plugins, "rabbitmq_management") {
		if err := probe(rec.Management+"/api/overview", rec.Username, rec.Password); err != nil {
			return err
		}
	}
	if slices.Contains(rec.Plugins, "rabbitmq_prometheus") {
		if err := probe(rec.Prometheus+"/metrics", "", ""); err != nil {
			return err
		}
	}
	connection, err := net.DialTimeout("tcp", fmt.Sprintf("%s:%d", rec.Address, rec.Ports.AMQP), 5*time.Second)
	if err != nil {
		return err
	}
	return connection.Close()
}

// probe makes one request that must succeed.
func probe(address, username, password string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	if username != "" {
		request.SetBasicAuth(username, password)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", address, response.Status)
	}
	return nil
}
