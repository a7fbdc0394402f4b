package lmstfy

import (
	"net/http"
	"sort"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// poolDefault is the pool that every server has. Its namespaces are those of the
// engine, so that jobs of other protocols are in it.
const poolDefault = "default"

// seriesMax is how many namespaces and queues of a pool have figures of their own.
const seriesMax = 10000

// pool is a key space of its own: the names of its namespaces in the engine begin
// with its name.
type pool struct {
	name   string
	prefix string // of its namespaces in the engine
	spaces table[space]

	published, consumed, read, deleted atomic.Uint64
	timed, direct, respawned           atomic.Uint64
}

func newPool(name string) *pool {
	p := &pool{name: name, spaces: table[space]{room: new(atomic.Int64)}}
	if name != poolDefault {
		p.prefix = name + ":"
	}
	p.spaces.room.Store(seriesMax)
	return p
}

// add returns the figures of a namespace; nil if there are too many namespaces.
func (p *pool) add(namespace string) *space {
	return p.spaces.add(namespace, func(name string) *space {
		s := &space{pool: p, name: name, engine: p.prefix + name}
		s.queues.room = p.spaces.room
		return s
	})
}

// space is what is kept about a namespace of a pool.
type space struct {
	pool   *pool
	name   string
	engine string // its name in the engine
	queues table[queueStats]
	routes [routeCount]routeStats
}

// queue returns the figures of a queue; nil if there are too many queues.
func (s *space) queue(name string) *queueStats {
	return s.queues.add(name, func(name string) *queueStats { return &queueStats{name: name} })
}

// queueStats counts what happens to the jobs of a queue.
type queueStats struct {
	name                string
	published, consumed atomic.Uint64
	waited, acked       histogram
}

// routeStats counts the answers of a route.
type routeStats struct {
	codes   [len(statuses)]atomic.Uint64
	latency histogram
}

// statuses are the codes that are ever answered.
var statuses = [...]int{
	http.StatusOK, http.StatusCreated, http.StatusNoContent, http.StatusBadRequest, http.StatusUnauthorized,
	http.StatusNotFound,
	http.StatusRequestEntityTooLarge, http.StatusTooManyRequests, http.StatusInternalServerError,
	http.StatusServiceUnavailable,
}

// count counts an answer. Only successes tell how long a call takes.
func (r *routeStats) count(status int, took time.Duration) {
	for i, s := range statuses {
		if s == status {
			r.codes[i].Add(1)
			break
		}
	}
	if status < http.StatusMultipleChoices {
		r.latency.observe(callBounds, took)
	}
}

// The upper bounds of the buckets, as in the original: in milliseconds.
var (
	jobBounds  = prometheus.ExponentialBuckets(15, 3.5, 7)
	callBounds = prometheus.ExponentialBuckets(15, 2.5, bucketsMax)
)

const bucketsMax = 9

// histogram counts times, those above all bounds in a bucket of their own.
type histogram struct {
	buckets [bucketsMax + 1]atomic.Uint64
	sum     atomic.Uint64 // in microseconds
}

func (h *histogram) observe(bounds []float64, took time.Duration) {
	us := uint64(max(took, 0) / time.Microsecond)
	h.buckets[sort.SearchFloat64s(bounds, float64(us)/1000)].Add(1)
	h.sum.Add(us)
}

// collect sends what has been counted, if there is anything.
func (h *histogram) collect(ch chan<- prometheus.Metric, desc *prometheus.Desc, bounds []float64, labels ...string) {
	buckets := make(map[float64]uint64, len(bounds))
	count := uint64(0)
	for i, bound := range bounds {
		count += h.buckets[i].Load()
		buckets[bound] = count
	}
	if count += h.buckets[len(bounds)].Load(); count > 0 {
		ch <- prometheus.MustNewConstHistogram(desc, count, float64(h.sum.Load())/1000, buckets, labels...)
	}
}
