package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"millrace/internal/job"
)

// FetchOptions say which jobs a worker wants.
type FetchOptions struct {
	Namespace string
	Queues    []string // the first that has a job is taken from
	Max       int      // jobs at most; default 1
	Wait      time.Duration
	// Lease is how long the worker holds the jobs unless it extends that; zero is each job's own, or LeaseDefault.
	Lease time.Duration
	// Holder is what an earlier fetch of the same worker has answered; empty for its first.
	Holder string
	// Worker is what people see of who holds the jobs.
	Worker string

	way *job.Delivery // follows the answer; nil if nobody does
}

const (
	// LeaseDefault is how long a job is held if neither the job nor the fetch says.
	LeaseDefault = time.Minute

	leaseMin     = time.Second
	leaseMax     = 24 * time.Hour
	fetchMax     = 100 // jobs of one answer
	fetchQueues  = 1000
	fetchWaitMax = 5 * time.Minute
)

// Work are the jobs that a fetch has leased.
type Work struct {
	// Holder is who holds them. It is named again to settle them, and with the next fetch.
	Holder string    `json:"holder"`
	Jobs   []WorkJob `json:"jobs"`
}

// WorkJob is a job in a worker's hands, with the whole of its body.
type WorkJob struct {
	JobRow
	Body *Content `json:"body,omitempty"`
	// Custom is what was pushed along with it through this API, Trace the W3C traceparent of who pushed it.
	Custom json.RawMessage `json:"custom,omitempty"`
	Trace  string          `json:"traceparent,omitempty"`
}

// customOf returns the object that was pushed along with a job. What protocols keep with theirs is never an object, but
// for one whose jobs are told by their door.
func customOf(extra []byte) json.RawMessage {
	if len(extra) == 0 || extra[0] != '{' {
		return nil
	}
	return extra
}

// delivery is the answer of a fetch and how to take it back.
type delivery struct {
	Work
	service *Service
	refs    []job.Ref
	holder  job.Holder
}

// giveBack makes the jobs ready again as if they had not been fetched: the worker has not got them.
func (d *delivery) giveBack() {
	if len(d.refs) > 0 {
		d.service.engine.NewCallerAt(d.service.opts.Door).Do(context.Background(), &job.Return{Refs: d.refs, By: d.holder})
	}
}

// fetch leases jobs, or waits for one. Nothing there is no error.
func (s *Service) fetch(ctx context.Context, o FetchOptions) (*delivery, error) {
	cmd, err := s.fetchCommand(&o)
	if err != nil {
		return nil, err
	}
	d := &delivery{Work: Work{Holder: holderText(cmd.Holder), Jobs: []WorkJob{}}, service: s, holder: cmd.Holder}
	s.work.sessions.note(cmd.Holder, o.Worker)
	result := s.engine.NewCallerAt(s.opts.Door).Do(ctx, cmd)[0]
	if err := result.Err; err != nil && err.Kind != job.Timeout && err.Kind != job.Canceled {
		return nil, refusal(err)
	}
	for i := range result.Jobs {
		j := &result.Jobs[i]
		d.refs = append(d.refs, j.Ref())
		w := WorkJob{JobRow: s.row(j, nil), Trace: j.Trace}
		if j.Origin == s.opts.Door {
			w.Custom = customOf(j.Extra)
		}
		if j.BodyKind != job.BodyNone {
			w.Body = wholeContent(j.Body, j.BodyKind)
		}
		d.Jobs = append(d.Jobs, w)
	}
	return d, nil
}

func (s *Service) fetchCommand(o *FetchOptions) (*job.Fetch, error) {
	if len(o.Queues) == 0 || len(o.Queues) > fetchQueues {
		return nil, invalid("queues: name 1 to %d", fetchQueues)
	}
	for _, name := range o.Queues {
		if err := checkQueue(o.Namespace, name); err != nil {
			return nil, err
		}
	}
	if o.Max == 0 {
		o.Max = 1
	}
	if o.Max < 0 || o.Max > fetchMax {
		return nil, invalid("max: choose 1 to %d", fetchMax)
	}
	if o.Wait < 0 || o.Wait > fetchWaitMax {
		return nil, invalid("wait_seconds: choose 0 to %.0f", fetchWaitMax.Seconds())
	}
	if o.Lease != 0 {
		if err := checkLease(o.Lease); err != nil {
			return nil, err
		}
	}
	if err := checkName("worker", o.Worker); err != nil {
		return nil, err
	}
	holder := s.engine.NewHolder()
	if o.Holder != "" {
		var err error
		if holder, err = parseHolder(o.Holder); err != nil {
			return nil, err
		}
	}
	return &job.Fetch{
		Namespace: o.Namespace, Queues: o.Queues, Pick: job.PickInOrder, Max: o.Max, Wait: o.Wait, Holder: holder, Exclusive: true,
		OnEnd: job.EndKeep, Door: s.opts.Door, Lease: o.Lease, LeaseSet: o.Lease != 0, DefaultLease: LeaseDefault, Delivery: o.way,
	}, nil
}

func checkLease(d time.Duration) error {
	if d < leaseMin || d > leaseMax {
		return invalid("lease_seconds: choose %.0f to %.0f", leaseMin.Seconds(), leaseMax.Seconds())
	}
	return nil
}

// parseHolder is the inverse of holderText.
func parseHolder(text string) (job.Holder, error) {
	node, num, ok := strings.Cut(text, "-")
	a, err := strconv.ParseUint(node, 36, 32)
	b, err2 := strconv.ParseUint(num, 36, 64)
	if !ok || err != nil || err2 != nil || b == 0 {
		return job.Holder{}, invalid("holder: %q is none: name what the fetch has answered", text)
	}
	return job.Holder{Node: uint32(a), Num: b}, nil
}

// wholeContent shows all bytes, and those that are not too many also in a form that people can read.
func wholeContent(b []byte, kind job.BodyKind) *Content {
	if len(b) > contentMax {
		return &Content{Size: len(b), Base64: b}
	}
	return content(b, kind)
}

func (c *call) fetchJobs() error {
	var in struct {
		Queues []string `json:"queues"`
		Max    int      `json:"max"`
		Wait   float64  `json:"wait_seconds"`
		Lease  float64  `json:"lease_seconds"`
		Holder string   `json:"holder"`
		Worker string   `json:"worker"`
	}
	if err := c.decode(&in); err != nil {
		return err
	}
	o := FetchOptions{Namespace: c.name("namespace"), Queues: in.Queues, Max: in.Max, Holder: in.Holder, Worker: in.Worker}
	var err error
	if o.Wait, err = seconds("wait_seconds", in.Wait); err != nil {
		return err
	}
	if o.Lease, err = seconds("lease_seconds", in.Lease); err != nil {
		return err
	}
	c.allowTime(o.Wait)
	o.way = new(job.Delivery)
	defer c.engine.Sent(o.way) // when it has been written or given back
	d, err := c.fetch(c.r.Context(), o)
	if err != nil {
		return err
	}
	return c.deliver(d)
}

// deliver answers with jobs. Those that cannot be written go back as if they had not been taken.
func (c *call) deliver(d *delivery) error {
	if gone(c.r.Context()) {
		d.giveBack()
		return nil
	}
	text, err := json.Marshal(d.Work)
	if err != nil {
		d.giveBack()
		return fmt.Errorf("write jobs: %w", err)
	}
	h := c.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(text)))
	c.w.WriteHeader(http.StatusOK)
	if !c.sent(text) {
		d.giveBack()
	}
	return nil
}

func gone(ctx context.Context) bool { return ctx.Err() != nil }

// sent reports whether a text has left.
func (c *call) sent(text []byte) bool {
	if _, err := c.w.Write(text); err != nil {
		return false
	}
	return http.NewResponseController(c.w).Flush() == nil
}
