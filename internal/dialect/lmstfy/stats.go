package lmstfy

import (
	"net/http"
	"sort"
	"sync/atomic"
	"time"
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
	spaces *table[space]

	published, consumed, read, deleted atomic.Uint64
	timed, direct, respawned           atomic.Uint64
}

func newPool(name string) *pool {
	p := &pool{name: name}
	if name != poolDefault {
		p.prefix = name + ":"
	}
	room := new(atomic.Int64)
	room.Store(seriesMax)
	p.spaces = newTable[space](room)
	return p
}

// add returns the figures of a namespace; nil if there are too many namespaces.
func (p *pool) add(namespace string) *space {
	return p.spaces.add(namespace, func(name string) *space {
		return &space{pool: p, name: name, engine: p.prefix + name, queues: newTable[queueStats](p.spaces.room)}
	})
}

// space is what is kept about a namespace of a pool.
type space struct {
	pool   *pool
	name   string
	engine string // its name in the engine
	queues *table[queueStats]
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
	waited, acked       jobHistogram
}

// routeStats counts the answers of a route.
type routeStats struct {
	codes   [len(statuses)]atomic.Uint64
	latency callHistogram
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
		r.latency.observe(uint64(max(took, 0) / time.Microsecond))
	}
}

// The upper bounds of the buckets, as in the original: in milliseconds.
var (
	jobBounds  = exponential[[jobBuckets]float64](15, 3.5)
	callBounds = exponential[[callBuckets]float64](15, 2.5)
)

const (
	jobBuckets  = 7
	callBuckets = 9
)

func exponential[A [jobBuckets]float64 | [callBuckets]float64](first, factor float64) (bounds A) {
	for i := range len(bounds) {
		bounds[i] = first
		first *= factor
	}
	return bounds
}

// jobHistogram is about the age of jobs in milliseconds.
type jobHistogram struct {
	buckets [jobBuckets + 1]atomic.Uint64
	sum     atomic.Uint64
}

func (h *jobHistogram) observe(ms uint64) {
	h.buckets[sort.SearchFloat64s(jobBounds[:], float64(ms))].Add(1)
	h.sum.Add(ms)
}

// callHistogram is about the length of calls in microseconds.
type callHistogram struct {
	buckets [callBuckets + 1]atomic.Uint64
	sum     atomic.Uint64
}

func (h *callHistogram) observe(us uint64) {
	h.buckets[sort.SearchFloat64s(callBounds[:], float64(us)/1000)].Add(1)
	h.sum.Add(us)
}

// cumulate returns buckets in the form that Prometheus has them.
func cumulate(bounds []float64, buckets []atomic.Uint64) (count uint64, byBound map[float64]uint64) {
	byBound = make(map[float64]uint64, len(bounds))
	for i := range buckets {
		count += buckets[i].Load()
		if i < len(bounds) {
			byBound[bounds[i]] = count
		}
	}
	return count, byBound
}
