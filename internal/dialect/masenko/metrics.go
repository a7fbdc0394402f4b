package masenko

import (
	"net/http"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"millrace/internal/dialect"
	"millrace/internal/job"
)

// response is the first word of a reply.
type response uint8

const (
	responseOK response = iota
	responseErr
	responsePong
	responseEmpty
	responseCount = int(responseEmpty) + 1
)

var responseNames = [responseCount]string{"OK", "ERR", "PONG", "EMPTY"}

// counters are what INFO and the metrics page tell.
type counters struct {
	received  atomic.Uint64                // requests of any kind
	requests  [verbCount]atomic.Uint64     // successful requests, those in transactions one by one
	responses [responseCount]atomic.Uint64 // replies
}

// ok counts a successful request and its reply.
func (c *counters) ok(v verb, r response) {
	c.requests[v].Add(1)
	c.responses[r].Add(1)
}

// newCommands makes the table of the commands. DONE is the end of ATOMIC, and else unknown.
func newCommands() *dialect.Commands {
	names := verbNames
	names[verbDone] = ""
	return dialect.NewCommands(names[:]...)
}

// taskCounts are the numbers of a queue in the protocol's terms.
type taskCounts struct{ ready, delayed, toAck uint64 }

func tasksOf(q *job.QueueInfo) taskCounts {
	return taskCounts{
		ready:   q.Counts[job.Ready],
		delayed: q.Counts[job.Scheduled] + q.Counts[job.Retrying],
		toAck:   q.Counts[job.Leased],
	}
}

// The names are those of the original server, which dashboards know; they break
// today's naming rules.
var (
	descClients   = prometheus.NewDesc("masenko_clients_total", "Clients connected now.", nil, nil)
	descRequests  = prometheus.NewDesc("masenko_requests_total", "Successful requests.", []string{"verb"}, nil)
	descResponses = prometheus.NewDesc("masenko_responses_total", "Replies.", []string{"verb"}, nil)
	descTasks     = prometheus.NewDesc("masenko_tasks_total", "Tasks now.", []string{"queue", "kind"}, nil)
)

// collector reads the counters and the engine when it is asked.
type collector struct{ d *Dialect }

// Describe implements prometheus.Collector.
func (collector) Describe(ch chan<- *prometheus.Desc) {
	ch <- descClients
	ch <- descRequests
	ch <- descResponses
	ch <- descTasks
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.MustNewConstMetric(descClients, prometheus.GaugeValue, float64(c.d.Stats().Open)) //nolint:promlinter // the original's name
	for v := verbPing; int(v) < verbCount; v++ {
		if v == verbDone {
			continue // part of ATOMIC
		}
		n := c.d.counters.requests[v].Load()
		ch <- prometheus.MustNewConstMetric(descRequests, prometheus.CounterValue, float64(n), verbNames[v])
	}
	for r, name := range responseNames {
		n := c.d.counters.responses[r].Load()
		ch <- prometheus.MustNewConstMetric(descResponses, prometheus.CounterValue, float64(n), name)
	}
	queues, err := dialect.Shown(c.d.opts.Engine, c.d.opts.Namespace)
	if err != nil {
		ch <- prometheus.NewInvalidMetric(descTasks, err)
		return
	}
	for i := range queues {
		n := tasksOf(&queues[i])
		gauge := func(kind string, value uint64) {
			ch <- prometheus.MustNewConstMetric(descTasks, prometheus.GaugeValue, float64(value), queues[i].Name, kind) //nolint:promlinter // the original's name
		}
		gauge("ready", n.ready)
		gauge("delayed", n.delayed)
		gauge("toack", n.toAck)
	}
}

// MetricsHandler returns the original's HTTP side interface: Prometheus text on
// whatever path.
func (d *Dialect) MetricsHandler() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector{d})
	return d.opts.Shared.Alone(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
}
