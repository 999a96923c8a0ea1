package service

import (
	"cmp"
	"net/http"
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"

	"github.com/evald/evald/cmd/evald/kserve"
	"github.com/evald/evald/engine/short"
)

// clients counts requests for inference by client, so that an operator sees who uses the service. A
// client has a name by its token or its certificate. Without one, or beyond mostClients names, it is
// counted as otherClient: each name is a series of metrics, and an authority may sign any number of
// certificates.
type clients struct {
	mu sync.Mutex
	by map[string]*clientCounts
}

const (
	mostClients = 100
	otherClient = "other"
)

// clientCounts are the counts of a client.
type clientCounts struct{ requests, rows, refused uint64 }

// identity returns what the request's client has shown: a token with its name or its line, a certificate with its holder, or nothing.
func (r *request) identity() (kind, name string) {
	switch {
	case r.token != nil:
		return "token", cmp.Or(r.token.name, strconv.Itoa(r.token.number))
	case r.shown != "":
		return "certificate", r.shown
	}
	return "", ""
}

// name returns the name of the request's client in the metrics.
func (r *request) name() string {
	kind, name := r.identity()
	if kind == "" {
		return otherClient
	}
	return kind + " " + short.Text(name)
}

// count counts a request that has ended. status is as in attributes.
func (c *clients) count(r *request, status any) {
	stream := r.protocol == "gRPC" && r.method == kserve.GRPCInferenceService_ModelStreamInfer_FullMethodName
	if r.group != inferenceCalls || stream && status != codes.ResourceExhausted { // the requests of a stream are counted
		return
	}
	name := r.name()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by[name] == nil && len(c.by) >= mostClients {
		name = otherClient
	}
	if c.by[name] == nil {
		c.by[name] = new(clientCounts)
	}
	to := c.by[name]
	to.requests++
	switch status {
	case http.StatusOK, codes.OK:
		to.rows += uint64(r.rows)
	case http.StatusTooManyRequests, codes.ResourceExhausted:
		to.refused++
	}
}

func (c *clients) collect(out chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, counts := range c.by {
		count := func(metric, help string, value uint64) {
			out <- prometheus.MustNewConstMetric(prometheus.NewDesc(metric, help, []string{"client"}, nil), prometheus.CounterValue, float64(value), name)
		}
		count("evald_client_requests_total", "Requests for inference that have ended, by client: a token (by its name or line), a certificate, or other.", counts.requests)
		count("evald_client_rows_total", "Positions of a client that were answered.", counts.rows)
		count("evald_client_refused_total", "Requests of a client that were refused for lack of room.", counts.refused)
	}
}
