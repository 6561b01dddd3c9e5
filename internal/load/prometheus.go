package load

import (
	"context"
	"net/url"

	"github.com/warren-mq/warren/internal/bench"
	"github.com/warren-mq/warren/internal/broker"
)

// Prometheus samples the Prometheus endpoints of broker nodes.
type Prometheus struct {
	Scraper broker.Scraper
	URLs    []string // http://HOST:15692, one for each node
	VHost   string   // whose queues are looked at one by one
}

// Sample implements Source.
func (p Prometheus) Sample(ctx context.Context) (samples []bench.Sample, err error) {
	query := url.Values{"vhost": {p.VHost}, "family": bench.DetailedFamilies}.Encode()
	for _, address := range p.URLs {
		node, failed := p.page(ctx, address, "/metrics", "")
		if failed != nil {
			err = failed
			continue
		}
		detailed, failed := p.page(ctx, address, "/metrics/detailed", query)
		if failed != nil {
			err = failed
		}
		// The queues of the vhost alone, where both say something of queues.
		s := bench.Join(detailed, node)
		if s.Node == "" {
			s.Node = node.Node
		}
		samples = append(samples, s)
	}
	return samples, err
}

func (p Prometheus) page(ctx context.Context, address, path, query string) (bench.Sample, error) {
	text, err := p.Scraper.Scrape(ctx, address, path, query)
	if err != nil {
		return bench.Sample{}, err
	}
	return bench.ParseMetrics(text)
}
