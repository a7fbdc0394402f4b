package bench

import (
	"errors"
	"time"
)

// Result is what a run found.
type Result struct {
	Protocol  string  `json:"protocol"`
	Addr      string  `json:"addr"`
	TLS       bool    `json:"tls"`
	Queue     string  `json:"queue"`
	Producers int     `json:"producers"`
	Workers   int     `json:"workers"`
	Batch     int     `json:"batch"`
	Sizes     []int   `json:"sizes"`
	Wanted    float64 `json:"rate_wanted,omitempty"` // jobs per second, if a rate was set

	Elapsed Seconds `json:"elapsed_seconds"` // from the start to the last answer that counts
	Pushed  uint64  `json:"pushed"`          // in the time that was measured
	Fetched uint64  `json:"fetched"`
	// PushRate and FetchRate are jobs per second: pushed, and fetched and acked.
	PushRate  float64 `json:"push_rate"`
	FetchRate float64 `json:"fetch_rate"`

	Push  Latency `json:"push"`  // one request, of a batch of jobs
	Fetch Latency `json:"fetch"` // the time that it waited for a job included
	Ack   Latency `json:"ack"`
	Cycle Latency `json:"fetch_and_ack"`
	// PushToFetch runs from before the push until a worker has the job.
	PushToFetch Latency `json:"push_to_fetch"`

	// Checked tells whether every job was looked for: then Lost were acknowledged but never delivered,
	// and Duplicated is how many deliveries there were of jobs that had been delivered before.
	Checked    bool   `json:"checked"`
	Lost       int    `json:"lost"`
	Duplicated uint64 `json:"duplicated"`
}

// ErrNothingDone means that a run was too short for a single job.
var ErrNothingDone = errors.New("nothing was done: give it more time")

// result sums up the phase that was measured, and what has been found since.
func (r *run) result(p *phase) (*Result, error) {
	out := &Result{
		Protocol: r.Protocol.Name, Addr: r.Addr, TLS: r.TLS != nil, Queue: r.Queue, Producers: r.Producers,
		Workers: r.Workers, Batch: r.Batch,
		Sizes: r.Sizes, Wanted: r.Rate, Checked: !r.Unchecked && (!r.Keep || r.Workers > 0),
	}
	var push, fetch, ack, whole, pushToFetch Histogram
	pushed, fetched := p.start, p.start // when that ended
	for _, c := range p.producers {
		push.Merge(&c.push)
		out.Pushed += c.jobs
		pushed = later(pushed, c.last)
	}
	for _, c := range p.workers {
		fetch.Merge(&c.fetch)
		ack.Merge(&c.ack)
		whole.Merge(&c.whole)
		pushToFetch.Merge(&c.pushToFetch)
		out.Fetched += c.jobs
		fetched = later(fetched, c.last)
	}
	if out.Pushed+out.Fetched == 0 {
		return nil, ErrNothingDone
	}
	out.Elapsed = Seconds(later(pushed, fetched).Sub(p.start))
	out.PushRate = perSecond(out.Pushed, pushed.Sub(p.start))
	out.FetchRate = perSecond(out.Fetched, fetched.Sub(p.start))
	out.Push, out.Fetch, out.Ack, out.Cycle = push.Latency(), fetch.Latency(), ack.Latency(), whole.Latency()
	out.PushToFetch = pushToFetch.Latency()
	if out.Checked {
		out.Lost, out.Duplicated = r.ledger.lost(), r.ledger.again.Load()
	}
	return out, nil
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func perSecond(n uint64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}

// Rate returns jobs per second that went as far as this run takes them.
func (r *Result) Rate() float64 {
	if r.Workers > 0 {
		return r.FetchRate
	}
	return r.PushRate
}
