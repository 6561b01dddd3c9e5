package management

import (
	"bytes"
	"context"
	"math"
	"net/http"
	"net/url"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/warren-mq/warren/internal/broker"
)

// Runtime implements broker.Connector: GET URL/metrics, as text. The series have the same names in 3.10 to 4.3.
func (c *connector) Runtime(ctx context.Context, address string) (broker.Runtime, error) {
	const op = "read the Prometheus endpoint"
	body, err := c.scrapePage(ctx, op, address, "/metrics", "")
	if err != nil {
		return broker.Runtime{}, err
	}
	return parseRuntime(op, body)
}

// scrapePage reads one page of a Prometheus endpoint.
func (c *connector) scrapePage(ctx context.Context, op, address, path, query string) ([]byte, error) {
	base, err := url.Parse(address)
	if err != nil || base.Host == "" || (base.Scheme != "http" && base.Scheme != "https") || base.User != nil {
		return nil, refused(op, "the address must be http://HOST:PORT or https://HOST:PORT")
	}
	ctx, cancel := context.WithTimeout(ctx, c.options.CallTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://node/", nil)
	if err != nil {
		return nil, refused(op, err.Error())
	}
	request.URL = &url.URL{Scheme: base.Scheme, Host: base.Host, Path: path, RawQuery: query}
	request.Host = base.Host
	request.Header.Set("Accept", "text/plain; version=0.0.4")
	c.options.OnRequest(http.MethodGet, "")
	got, err := exchange(c.runtime.http, op, request, c.options.CallTimeout, c.options.MaxResponse)
	if err != nil {
		return nil, err
	}
	if got.status != http.StatusOK {
		return nil, failure(op, got)
	}
	return got.body, nil
}

var _ broker.Scraper = (*connector)(nil)

// Scrape implements broker.Scraper.
func (c *connector) Scrape(ctx context.Context, address, path, query string) ([]byte, error) {
	return c.scrapePage(ctx, "read the Prometheus endpoint", address, path, query)
}

func parseRuntime(op string, body []byte) (broker.Runtime, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(body))
	if err != nil {
		return broker.Runtime{}, &broker.Error{Kind: broker.Unavailable, Op: op,
			Reason: "the answer is not Prometheus text: " + err.Error(), Err: err}
	}
	return broker.Runtime{
		Schedulers:       whole[int](families["erlang_vm_schedulers"]),
		SchedulersOnline: whole[int](families["erlang_vm_schedulers_online"]),
		MemoryUsed:       whole[int64](families["rabbitmq_process_resident_memory_bytes"]),
		MemoryLimit:      whole[int64](families["rabbitmq_resident_memory_limit_bytes"]),
		DiskFreeLimit:    whole[int64](families["rabbitmq_disk_space_available_limit_bytes"]),
		MemoryAlarm:      flag(families["rabbitmq_alarms_memory_used_watermark"]),
		DiskAlarm:        flag(families["rabbitmq_alarms_free_disk_space_watermark"]),
	}, nil
}

// flag is whether a family's value is not 0; nil when it is absent.
func flag(family *dto.MetricFamily) *bool {
	n := whole[int](family)
	if n == nil {
		return nil
	}
	raised := *n != 0
	return &raised
}

// whole is the value of a family with one series without labels; nil when it is absent or no number.
func whole[T int | int64](family *dto.MetricFamily) *T {
	if family == nil || len(family.GetMetric()) != 1 {
		return nil
	}
	metric := family.GetMetric()[0]
	value := metric.GetUntyped().GetValue()
	if metric.GetGauge() != nil {
		value = metric.GetGauge().GetValue()
	}
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return nil
	}
	n := T(value)
	return &n
}
