package migrate

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"millrace/internal/api"
	"millrace/internal/dialect"
)

// Follower works at another server as a worker that does nothing but pass jobs on.
type Follower interface {
	Protocol() string
	Name() string
	// Fetch takes some jobs, and waits a moment for the first. It may return none. Once ctx has ended it returns those
	// that it has taken already, and then an error.
	Fetch(ctx context.Context) ([]*dialect.Arrival, error)
	// Settle ends them at the source: those that arrived are done, the others are set aside there.
	Settle(jobs []*dialect.Arrival, arrived []bool, why []string) error
	Close() error
}

// reuser is a Follower whose server uses ids again.
type reuser interface {
	// Gone returns the ids of jobs that have been settled since it was asked last.
	Gone() []string
}

// followers are the kinds that can be followed.
var followers = map[string]func(ctx context.Context, address string) (Follower, error){
	"beanstalkd": followBeanstalkd,
	"faktory":    followFaktory,
	"lmstfy":     followLmstfy,
	"masenko":    followMasenko,
	"tarantool":  followTarantool,
	"workq":      followWorkq,
}

// OpenFollower opens a server to be followed.
func OpenFollower(ctx context.Context, kind, address string) (Follower, error) {
	open := followers[kind]
	if open == nil {
		return nil, fmt.Errorf("%q is none of %s", kind, strings.Join(Kinds(), ", "))
	}
	return open(ctx, address)
}

// settleTime is how long jobs that were fetched before the end may take to be passed on.
const settleTime = 30 * time.Second

// Follow passes jobs on until ctx ends. A job is done at the source only when it is durable here. Whenever that is
// interrupted, the source gives the job out again, and its mark tells whether it has arrived.
func Follow(ctx context.Context, f Follower, o Options) (*Report, error) {
	o.Name = cmp.Or(o.Name, f.Name())
	r := &run{o: o, protocol: f.Protocol(), report: newReport(f.Protocol(), o.Name, false)}
	began := time.Now()
	defer func() { r.report.Seconds = time.Since(began).Seconds() }()
	for {
		jobs, err := f.Fetch(ctx)
		switch {
		case err != nil && ctx.Err() != nil:
			return r.report, nil
		case err != nil:
			return r.report, err
		case len(jobs) == 0:
			continue
		}
		if err := r.pass(ctx, f, jobs); err != nil {
			return r.report, err
		}
	}
}

// pass passes some jobs on, also when ctx ends meanwhile.
func (r *run) pass(ctx context.Context, f Follower, jobs []*dialect.Arrival) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	for len(jobs) > 0 {
		u := new(unit)
		for len(u.jobs) < len(jobs) && u.lines.Len() < unitBytes {
			if err := u.add(jobs[len(u.jobs)]); err != nil {
				return err
			}
		}
		n := len(u.jobs)
		if err := r.passUnit(ctx, f, jobs[:n], u); err != nil {
			return err
		}
		jobs = jobs[n:]
	}
	return nil
}

// passUnit passes some jobs on that fit into a request.
func (r *run) passUnit(ctx context.Context, f Follower, jobs []*dialect.Arrival, u *unit) error {
	result, err := r.migrate(ctx, u)
	if err != nil {
		return err
	}
	arrived, why := make([]bool, len(jobs)), make([]string, len(jobs))
	for i := range jobs {
		arrived[i] = result.Lines[i] != api.LineRefused
	}
	for _, l := range result.Refused {
		why[l.Line-1] = strings.ReplaceAll(l.Problem, "\n", " ")
	}
	if err := f.Settle(jobs, arrived, why); err != nil {
		return err
	}
	if f, ok := f.(reuser); ok {
		return r.forget(ctx, f.Gone())
	}
	return nil
}

// forget has the server forget the ids of jobs that are gone.
func (r *run) forget(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	u := new(unit)
	for _, id := range ids {
		if err := u.add(&dialect.Arrival{ID: id, State: dialect.StateGone}); err != nil {
			return err
		}
	}
	_, err := r.ask(ctx, u)
	return err
}
