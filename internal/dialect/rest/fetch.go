package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"millrace/internal/api"
	"millrace/internal/dialect"
	"millrace/internal/job"
)

const (
	leaseMin     = time.Second
	leaseMax     = 24 * time.Hour
	fetchMax     = 100 // jobs of one answer
	fetchQueues  = 1000
	fetchWaitMax = 5 * time.Minute
)

// fetchJobs leases jobs, or waits for one. Nothing there is no error.
func (d *Dialect) fetchJobs(c *api.Call) error {
	var in api.FetchRequest
	if err := c.Decode(&in); err != nil {
		return err
	}
	o := api.FetchOptions{
		Namespace: c.Name("namespace"), Queues: in.Queues, Max: in.Max, Holder: in.Holder,
		Worker: in.Worker,
	}
	var err error
	if o.Wait, err = api.Seconds("wait_seconds", in.Wait); err != nil {
		return err
	}
	if o.Lease, err = api.Seconds("lease_seconds", in.Lease); err != nil {
		return err
	}
	c.AllowTime(o.Wait + d.opts.WriteTimeout)
	fetch, err := d.fetch(&o)
	if err != nil {
		return err
	}
	defer d.opts.Engine.Sent(fetch.Delivery) // when it has been written or given back
	d.names.note(fetch.Holder, o.Worker)
	result := d.do(c.R.Context(), fetch)
	if err := result.Err; err != nil && err.Kind != job.Timeout && err.Kind != job.Canceled {
		return api.Refusal(err)
	}
	delivered, err := d.deliver(c, fetch.Holder, result.Jobs)
	if !delivered && len(result.Jobs) > 0 {
		d.giveBack(fetch.Holder, result.Jobs)
	}
	return err
}

// deliver answers with jobs, and reports whether they have left.
func (d *Dialect) deliver(c *api.Call, holder job.Holder, jobs []job.Job) (bool, error) {
	select {
	case <-c.R.Context().Done(): // nobody is there any more
		return false, nil
	default:
	}
	work := api.Work{Holder: api.HolderText(holder), Jobs: make([]api.WorkJob, 0, len(jobs))}
	view := api.View{DoorName: dialect.DoorName, Now: d.opts.Engine.Now}
	for i := range jobs {
		j := &jobs[i]
		w := api.WorkJob{JobRow: view.Row(j), Trace: j.Trace}
		if j.Origin == dialect.DoorAdmin {
			w.Custom = api.CustomOf(j.Extra)
		}
		if j.BodyKind != job.BodyNone {
			w.Body = wholeContent(j.Body, j.BodyKind)
		}
		work.Jobs = append(work.Jobs, w)
	}
	text, err := json.Marshal(work)
	if err != nil {
		return false, fmt.Errorf("write jobs: %w", err)
	}
	h := c.W.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(text)))
	c.W.WriteHeader(http.StatusOK)
	_, err = c.W.Write(text)
	return err == nil && http.NewResponseController(c.W).Flush() == nil, nil
}

// giveBack makes jobs ready again as if they had not been fetched: the worker has not got them.
func (d *Dialect) giveBack(holder job.Holder, jobs []job.Job) {
	refs := make([]job.Ref, len(jobs))
	for i := range jobs {
		refs[i] = jobs[i].Ref()
	}
	d.do(context.Background(), &job.Return{Refs: refs, By: holder})
}

// fetch makes the command.
func (d *Dialect) fetch(o *api.FetchOptions) (*job.Fetch, error) {
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
	holder := d.opts.Engine.NewHolder()
	if o.Holder != "" {
		var err error
		if holder, err = api.ParseHolder(o.Holder); err != nil {
			return nil, err
		}
	}
	return &job.Fetch{
		Namespace: o.Namespace, Queues: o.Queues, Pick: job.PickInOrder, Max: o.Max, Wait: o.Wait, Holder: holder,
		Exclusive: true,
		OnEnd:     job.EndKeep, Door: dialect.DoorAdmin, Lease: o.Lease, LeaseSet: o.Lease != 0,
		DefaultLease: api.LeaseDefault,
		Delivery:     new(job.Delivery),
	}, nil
}

func checkLease(d time.Duration) error {
	if d < leaseMin || d > leaseMax {
		return api.Invalid("lease_seconds: choose %.0f to %.0f", leaseMin.Seconds(), leaseMax.Seconds())
	}
	return nil
}

// wholeContent shows all bytes, and those that are not too many also in a form that people can read.
func wholeContent(b []byte, kind job.BodyKind) *api.Content {
	if len(b) > api.ContentMax {
		return &api.Content{Size: len(b), Base64: b}
	}
	return api.ContentOf(b, kind)
}
