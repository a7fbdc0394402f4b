package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"millrace/internal/api"
	"millrace/internal/job"
)

const (
	leaseMin     = time.Second
	leaseMax     = 24 * time.Hour
	fetchMax     = 100 // jobs of one answer
	fetchQueues  = 1000
	fetchWaitMax = 5 * time.Minute
)

// delivery is the answer of a fetch and how to take it back.
type delivery struct {
	api.Work
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
func (s *Service) fetch(ctx context.Context, o api.FetchOptions, way *job.Delivery) (*delivery, error) {
	cmd, err := s.fetchCommand(&o)
	if err != nil {
		return nil, err
	}
	cmd.Delivery = way
	d := &delivery{Work: api.Work{Holder: api.HolderText(cmd.Holder), Jobs: []api.WorkJob{}}, service: s, holder: cmd.Holder}
	s.work.sessions.note(cmd.Holder, o.Worker)
	result := s.engine.NewCallerAt(s.opts.Door).Do(ctx, cmd)[0]
	if err := result.Err; err != nil && err.Kind != job.Timeout && err.Kind != job.Canceled {
		return nil, api.Refusal(err)
	}
	for i := range result.Jobs {
		j := &result.Jobs[i]
		d.refs = append(d.refs, j.Ref())
		w := api.WorkJob{JobRow: s.row(j, nil), Trace: j.Trace}
		if j.Origin == s.opts.Door {
			w.Custom = api.CustomOf(j.Extra)
		}
		if j.BodyKind != job.BodyNone {
			w.Body = api.WholeContent(j.Body, j.BodyKind)
		}
		d.Jobs = append(d.Jobs, w)
	}
	return d, nil
}

func (s *Service) fetchCommand(o *api.FetchOptions) (*job.Fetch, error) {
	if len(o.Queues) == 0 || len(o.Queues) > fetchQueues {
		return nil, api.Invalid("queues: name 1 to %d", fetchQueues)
	}
	for _, name := range o.Queues {
		if err := api.CheckQueue(o.Namespace, name); err != nil {
			return nil, err
		}
	}
	if o.Max == 0 {
		o.Max = 1
	}
	if o.Max < 0 || o.Max > fetchMax {
		return nil, api.Invalid("max: choose 1 to %d", fetchMax)
	}
	if o.Wait < 0 || o.Wait > fetchWaitMax {
		return nil, api.Invalid("wait_seconds: choose 0 to %.0f", fetchWaitMax.Seconds())
	}
	if o.Lease != 0 {
		if err := checkLease(o.Lease); err != nil {
			return nil, err
		}
	}
	if err := api.CheckName("worker", o.Worker); err != nil {
		return nil, err
	}
	holder := s.engine.NewHolder()
	if o.Holder != "" {
		var err error
		if holder, err = api.ParseHolder(o.Holder); err != nil {
			return nil, err
		}
	}
	return &job.Fetch{
		Namespace: o.Namespace, Queues: o.Queues, Pick: job.PickInOrder, Max: o.Max, Wait: o.Wait, Holder: holder, Exclusive: true,
		OnEnd: job.EndKeep, Door: s.opts.Door, Lease: o.Lease, LeaseSet: o.Lease != 0, DefaultLease: api.LeaseDefault,
	}, nil
}

func checkLease(d time.Duration) error {
	if d < leaseMin || d > leaseMax {
		return api.Invalid("lease_seconds: choose %.0f to %.0f", leaseMin.Seconds(), leaseMax.Seconds())
	}
	return nil
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
	if err := c.Decode(&in); err != nil {
		return err
	}
	o := api.FetchOptions{Namespace: c.Name("namespace"), Queues: in.Queues, Max: in.Max, Holder: in.Holder, Worker: in.Worker}
	var err error
	if o.Wait, err = api.Seconds("wait_seconds", in.Wait); err != nil {
		return err
	}
	if o.Lease, err = api.Seconds("lease_seconds", in.Lease); err != nil {
		return err
	}
	c.AllowTime(o.Wait)
	way := new(job.Delivery)
	defer c.engine.Sent(way) // when it has been written or given back
	d, err := c.fetch(c.R.Context(), o, way)
	if err != nil {
		return err
	}
	return c.deliver(d)
}

// deliver answers with jobs. Those that cannot be written go back as if they had not been taken.
func (c *call) deliver(d *delivery) error {
	if gone(c.R.Context()) {
		d.giveBack()
		return nil
	}
	text, err := json.Marshal(d.Work)
	if err != nil {
		d.giveBack()
		return fmt.Errorf("write jobs: %w", err)
	}
	h := c.W.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(text)))
	c.W.WriteHeader(http.StatusOK)
	if !c.sent(text) {
		d.giveBack()
	}
	return nil
}

func gone(ctx context.Context) bool { return ctx.Err() != nil }

// sent reports whether a text has left.
func (c *call) sent(text []byte) bool {
	if _, err := c.W.Write(text); err != nil {
		return false
	}
	return http.NewResponseController(c.W).Flush() == nil
}
