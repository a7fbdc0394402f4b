package lmstfy

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"millrace/internal/dialect"
	"millrace/internal/job"
)

// The names are those of the original server, which dashboards know; they break
// today's naming rules.
const (
	jobMetrics  = "infra_lmstfy_redis_"
	httpMetrics = "infra_lmstfy_http_"
)

func descOf(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, append([]string{"pool"}, labels...), nil)
}

// poolMetrics are the counters that a pool has, and where they come from.
var poolMetrics = []struct {
	desc  *prometheus.Desc
	count func(p *pool) *atomic.Uint64
}{
	{descOf(jobMetrics+"publish_jobs", "Jobs published."), published},
	{descOf(jobMetrics+"pool_add_jobs", "Jobs stored."), published},
	{descOf(jobMetrics+"consume_multi_jobs", "Jobs delivered."), consumed},
	{descOf(jobMetrics+"queue_pop_jobs", "Jobs taken from queues."), consumed},
	{
		descOf(jobMetrics+"pool_get_jobs", "Jobs read, to deliver or to show them."),
		func(p *pool) *atomic.Uint64 { return &p.read },
	},
	{
		descOf(jobMetrics+"pool_delete_jobs", "Jobs deleted by clients."),
		func(p *pool) *atomic.Uint64 { return &p.deleted },
	},
	{
		descOf(jobMetrics+"timer_add_jobs", "Delays and times to run begun."),
		func(p *pool) *atomic.Uint64 { return &p.timed },
	},
	{
		descOf(jobMetrics+"queue_direct_push_jobs", "Jobs published without a delay."),
		func(p *pool) *atomic.Uint64 { return &p.direct },
	},
	{
		descOf(jobMetrics+"deadletter_respawn_jobs", "Dead jobs respawned."),
		func(p *pool) *atomic.Uint64 { return &p.respawned },
	},
}

func published(p *pool) *atomic.Uint64 { return &p.published }
func consumed(p *pool) *atomic.Uint64  { return &p.consumed }

var (
	descDue       = descOf(jobMetrics+"timer_due_jobs", "Delays and times to run ended.")
	descBatches   = descOf(jobMetrics+"timer_full_batches", "Always 0: timers are not worked off in batches.")
	descPublished = descOf(jobMetrics+"publish_queue_jobs", "Jobs published.", "namespace", "queue")
	descConsumed  = descOf(jobMetrics+"consume_queue_jobs", "Jobs delivered.", "namespace", "queue")
	descWaited    = descOf(jobMetrics+"job_elapsed_ms", "Age of jobs when they are delivered.", "namespace", "queue")
	descAcked     = descOf(jobMetrics+"job_ack_elapsed_ms", "Age of jobs when they are deleted.", "namespace", "queue")
	descTimers    = descOf(jobMetrics+"timer_sizes", "Jobs that are delayed or being worked on.")
	descReady     = descOf(jobMetrics+"queue_sizes", "Jobs that are ready.", "namespace", "queue")
	descDead      = descOf(jobMetrics+"deadletter_sizes", "Jobs in the dead letter.", "namespace", "queue")
	descLatency   = descOf(httpMetrics+"latency_milliseconds", "Length of successful calls.", "namespace", "api",
		"method")
	descCodes   = descOf(httpMetrics+"http_codes", "Answers.", "namespace", "api", "method", "code")
	descLimited = descOf(httpMetrics+"rate_limit", "Calls refused because of a limit.", "namespace", "token",
		"action")
)

// collector reads the counters and the engine when it is asked.
type collector struct{ d *Dialect }

// Describe implements prometheus.Collector.
func (collector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range poolMetrics {
		ch <- m.desc
	}
	for _, desc := range []*prometheus.Desc{
		descDue, descBatches, descPublished, descConsumed, descWaited, descAcked, descTimers, descReady, descDead,
		descLatency, descCodes, descLimited,
	} {
		ch <- desc
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	report, err := c.d.sizes.get(c.d)
	if err != nil {
		ch <- prometheus.NewInvalidMetric(descReady, err)
	}
	for name, p := range c.d.pools {
		at := report.pools[name]
		for _, m := range poolMetrics {
			counter(ch, m.desc, m.count(p).Load(), name)
		}
		counter(ch, descDue, at.due, name)
		counter(ch, descBatches, 0, name)
		gauge(ch, descTimers, at.timers, name)
		for _, s := range p.spaces.all() {
			s.collect(ch)
		}
	}
	for _, q := range report.queues {
		gauge(ch, descReady, q.ready, q.pool, q.namespace, q.queue)
		gauge(ch, descDead, q.dead, q.pool, q.namespace, q.queue)
	}
	for _, l := range c.d.registry.listLimiters() {
		for s := sideRead; int(s) < sideCount; s++ {
			if n := l.limiter.refusals(s); n > 0 {
				// Whoever may read metrics need not know tokens.
				counter(ch, descLimited, n, l.pool, l.namespace, maskToken(l.token), sideNames[s])
			}
		}
	}
}

func counter(ch chan<- prometheus.Metric, desc *prometheus.Desc, n uint64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n), labels...)
}

func gauge(ch chan<- prometheus.Metric, desc *prometheus.Desc, n uint64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(n), labels...)
}

// collect sends the figures of a namespace.
func (s *space) collect(ch chan<- prometheus.Metric) {
	for _, q := range s.queues.all() {
		counter(ch, descPublished, q.published.Load(), s.pool.name, s.name, q.name)
		counter(ch, descConsumed, q.consumed.Load(), s.pool.name, s.name, q.name)
		q.waited.collect(ch, descWaited, jobBounds, s.pool.name, s.name, q.name)
		q.acked.collect(ch, descAcked, jobBounds, s.pool.name, s.name, q.name)
	}
	for i := range s.routes {
		r, info := &s.routes[i], &routes[i]
		for j := range r.codes {
			if n := r.codes[j].Load(); n > 0 {
				counter(ch, descCodes, n, s.pool.name, s.name, info.path, info.method, strconv.Itoa(statuses[j]))
			}
		}
		r.latency.collect(ch, descLatency, callBounds, s.pool.name, s.name, info.path, info.method)
	}
}

// queueSize is how many jobs a queue has.
type queueSize struct {
	pool, namespace, queue string
	ready, dead            uint64
}

// poolSize is about all queues of a pool.
type poolSize struct{ timers, due uint64 }

// sizeReport is what the engine says about the queues.
type sizeReport struct {
	queues []queueSize
	pools  map[string]poolSize
}

// sizesFor is how long the sizes are good for: whoever asks more often does not make
// the engine read all its queues again.
const sizesFor = 5 * time.Second

// sizes keeps the last report.
type sizes struct {
	mu     sync.Mutex // guards what follows, and is held while the engine is read
	taken  time.Time
	report sizeReport
}

func (s *sizes) get(d *Dialect) (sizeReport, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); s.taken.IsZero() || now.Sub(s.taken) >= sizesFor {
		report, err := d.readSizes()
		if err != nil {
			return s.report, err
		}
		s.taken, s.report = now, report
	}
	return s.report, nil
}

// readSizes asks the engine for the sums of all pools, and for the queues of which each has a size.
func (d *Dialect) readSizes() (sizeReport, error) {
	queues, err := dialect.Shown(d.opts.Engine, "")
	if err != nil {
		return sizeReport{}, err
	}
	report := sizeReport{pools: make(map[string]poolSize)}
	for i := range queues {
		q := &queues[i]
		if name, namespace, ok := d.place(q.Namespace); ok {
			report.queues = append(report.queues,
				queueSize{name, namespace, q.Name, q.Counts[job.Ready], q.Counts[job.Dead]})
		}
	}
	return report, d.sumPools(report.pools)
}

// sumPools adds up the queues of each pool, by the sums of its namespaces.
func (d *Dialect) sumPools(pools map[string]poolSize) error {
	const atOnce = 1000
	for after := ""; ; {
		names, err := d.opts.Engine.Namespaces(after, atOnce)
		if err != nil || len(names) == 0 {
			return err
		}
		list, err := d.opts.Engine.SumsOf(names)
		if err != nil {
			return err
		}
		for i, s := range list {
			if name, _, ok := d.place(names[i]); ok {
				at := pools[name]
				at.timers += s.Counts[job.Scheduled] + s.Counts[job.Leased]
				at.due += s.Totals[job.CountDue] + s.Totals[job.CountLapsed]
				pools[name] = at
			}
		}
		after = names[len(names)-1]
	}
}

// place tells the pool and namespace that a namespace of the engine is here.
func (d *Dialect) place(engineName string) (pool, namespace string, ok bool) {
	pool, namespace, prefixed := strings.Cut(engineName, ":")
	if !prefixed {
		return poolDefault, engineName, true
	}
	return pool, namespace, d.pools[pool] != nil && pool != poolDefault
}

// metricsHandler serves the metrics.
func (d *Dialect) metricsHandler() http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(collector{d}, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return d.opts.Shared.Alone(promhttp.HandlerFor(r, promhttp.HandlerOpts{}))
}
