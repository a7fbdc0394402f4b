package migrate

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"millrace/internal/admin"
	"millrace/internal/dialect"
)

// Follower works at another server as a worker that does nothing but pass jobs on.
type Follower interface {
	Protocol() string
	Name() string
	// Fetch takes some jobs, and waits a moment for the first. It may return none. Once ctx has ended it returns those that
	// it has taken already, and then an error.
	Fetch(ctx context.Context) ([]*dialect.Arrival, error)
	// Settle ends them at the source: those that arrived are done, the others are set aside there.
	Settle(jobs []*dialect.Arrival, arrived []bool, why []string) error
	Close() error
}

// followers are the kinds that can be followed.
var followers = map[string]func(ctx context.Context, address string) (Follower, error){
	"beanstalkd": followBeanstalkd,
	"faktory":    followFaktory,
}

// OpenFollower opens a server to be followed.
func OpenFollower(ctx context.Context, kind, address string) (Follower, error) {
	open := followers[kind]
	if open == nil {
		return nil, fmt.Errorf("%q cannot be followed: beanstalkd and faktory can", kind)
	}
	return open(ctx, address)
}

// settleTime is how long jobs that were fetched before the end may take to be passed on.
const settleTime = 30 * time.Second

// Follow passes jobs on until ctx ends. A job is done at the source only when it is durable here. Whenever that is interrupted, the
// source gives the job out again, and its mark tells whether it has arrived.
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
	u := new(unit)
	for _, a := range jobs {
		if err := u.add(a); err != nil {
			return err
		}
	}
	result, err := r.migrate(ctx, u)
	if err != nil {
		return err
	}
	arrived, why := make([]bool, len(jobs)), make([]string, len(jobs))
	for i := range jobs {
		arrived[i] = result.Lines[i] != admin.LineRefused
	}
	for _, l := range result.Refused {
		why[l.Line-1] = strings.ReplaceAll(l.Problem, "\n", " ")
	}
	return f.Settle(jobs, arrived, why)
}
