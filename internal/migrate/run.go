package migrate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"millrace/internal/api"
	"millrace/internal/dialect"
)

// Server is the side that takes jobs over.
type Server interface {
	Migrate(ctx context.Context, o api.MigrationOptions, lines []byte) (api.MigrationResult, error)
	Queue(ctx context.Context, namespace, name string) (api.Queue, error)
	AddToken(ctx context.Context, o api.TokenOptions) (api.NewToken, error)
}

// Options say how a source is migrated.
type Options struct {
	Server Server
	// Name, if it is set, takes the place of the source's own.
	Name      string
	Namespace string // of the listener here; empty: the first of the protocol
	DryRun    bool
	// Progress is told how many jobs have been dealt with, of how many.
	Progress func(done, total uint64)
	// Problem is told of each job that was not taken over, or not whole.
	Problem func(Problem)
	// Passing reports whether a request that was refused so may be repeated, after waiting a while.
	Passing func(ctx context.Context, err error, try int) bool
}

const (
	unitLines = 5000    // of one request
	unitBytes = 4 << 20 // as far as a line fits
)

// unit is one request: lines, and which job each of them is.
type unit struct {
	lines bytes.Buffer
	jobs  []place
}

// place is the queue and state of a job at its source.
type place struct{ namespace, queue, state string }

// run is a migration in progress. One goroutine reads, another sends.
type run struct {
	o        Options
	protocol string
	source   Source
	report   *Report
	total    uint64

	unit  *unit // being filled
	units chan *unit
	spare chan *unit
	stop  <-chan struct{}
}

// Run migrates a source. The report is good as far as it goes also with an error.
func Run(ctx context.Context, source Source, o Options) (*Report, error) {
	if o.Name == "" {
		o.Name = source.Name()
	}
	r := &run{
		o: o, protocol: source.Protocol(), source: source, report: newReport(source.Protocol(), o.Name, o.DryRun),
		units: make(chan *unit), spare: make(chan *unit, 2), unit: new(unit),
	}
	var err error
	if r.total, err = source.Count(ctx); err != nil {
		return r.report, err
	}
	began := time.Now()
	if err := r.copy(ctx); err != nil {
		return r.report, err
	}
	r.report.Seconds = time.Since(began).Seconds()
	if s, ok := source.(TokenSource); ok {
		if err := r.tokens(ctx, s); err != nil {
			return r.report, err
		}
	}
	if r.report.Left, err = source.Count(ctx); err != nil {
		return r.report, err
	}
	return r.report, r.report.compare(ctx, o.Server)
}

// copy reads and sends until there is nothing left.
func (r *run) copy(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r.stop = ctx.Done()
	read := make(chan error, 1)
	go func() {
		err := r.source.Read(ctx, r)
		if err == nil {
			err = r.flush()
		}
		close(r.units)
		read <- err
	}()
	for u := range r.units {
		if ctx.Err() != nil {
			continue // until the reader has noticed
		}
		if err := r.send(ctx, u); err != nil {
			cancel(err)
		}
	}
	err := <-read
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// Take is that of Sink.
func (r *run) Take(a *dialect.Arrival) error {
	if err := r.unit.add(a); err != nil {
		r.Leave(a, err.Error())
		return nil
	}
	if len(r.unit.jobs) >= unitLines || r.unit.lines.Len() >= unitBytes {
		return r.flush()
	}
	return nil
}

// add adds a job.
func (u *unit) add(a *dialect.Arrival) error {
	e := json.NewEncoder(&u.lines)
	e.SetEscapeHTML(false) // what is JSON already stays as it is spelled
	if err := e.Encode(a); err != nil {
		return fmt.Errorf("it cannot be written as JSON: %w", err)
	}
	u.jobs = append(u.jobs, place{a.Namespace, a.Queue, a.State})
	return nil
}

// Leave is that of Sink.
func (r *run) Leave(a *dialect.Arrival, why string) {
	r.report.left(place{a.Namespace, a.Queue, a.State})
	r.problem(Problem{ID: a.ID, Namespace: a.Namespace, Queue: a.Queue, State: a.State, Problem: why})
}

func (r *run) problem(p Problem) {
	r.report.problem(p)
	if r.o.Problem != nil {
		r.o.Problem(p)
	}
}

// flush hands the unit over.
func (r *run) flush() error {
	if len(r.unit.jobs) == 0 {
		return nil
	}
	select {
	case r.units <- r.unit:
	case <-r.stop:
		return context.Canceled
	}
	select {
	case r.unit = <-r.spare:
	default:
		r.unit = new(unit)
	}
	return nil
}

// send sends a unit.
func (r *run) send(ctx context.Context, u *unit) error {
	if _, err := r.migrate(ctx, u); err != nil {
		return err
	}
	u.lines.Reset()
	u.jobs = u.jobs[:0]
	select {
	case r.spare <- u:
	default:
	}
	return nil
}

// migrate has the server take a unit over, and counts what has become of it.
func (r *run) migrate(ctx context.Context, u *unit) (api.MigrationResult, error) {
	result, err := r.ask(ctx, u)
	if err == nil {
		err = r.took(u, &result)
	}
	return result, err
}

// ask asks the server as often as it takes: to repeat it does no harm.
func (r *run) ask(ctx context.Context, u *unit) (api.MigrationResult, error) {
	o := api.MigrationOptions{Source: r.o.Name, Protocol: r.protocol, Namespace: r.o.Namespace, DryRun: r.o.DryRun}
	for try := 1; ; try++ {
		result, err := r.o.Server.Migrate(ctx, o, u.lines.Bytes())
		if err == nil {
			return result, nil
		}
		if r.o.Passing == nil || !r.o.Passing(ctx, err, try) {
			return result, err
		}
	}
}

// took counts what has become of a unit.
func (r *run) took(u *unit, result *api.MigrationResult) error {
	if len(result.Lines) != len(u.jobs) {
		return fmt.Errorf("the server tells of %d lines, but %d were sent", len(result.Lines), len(u.jobs))
	}
	r.report.took(u.jobs, result)
	for _, list := range []struct {
		lines  []api.MigrationLine
		partly bool
	}{{result.Refused, false}, {result.Partly, true}} {
		for _, l := range list.lines {
			at := u.jobs[l.Line-1]
			r.problem(Problem{
				ID: l.ID, Namespace: at.namespace, Queue: at.queue, State: at.state, Partly: list.partly,
				Problem: l.Problem,
			})
		}
	}
	if r.o.Progress != nil {
		r.o.Progress(r.report.Jobs(), r.total)
	}
	return nil
}

// tokens makes the tokens of the source that are not there yet.
func (r *run) tokens(ctx context.Context, s TokenSource) error {
	all, err := s.Tokens(ctx)
	if err != nil {
		return err
	}
	sum := &TokenSum{Read: len(all)}
	r.report.Tokens = sum
	for i := range all {
		if r.o.DryRun {
			continue
		}
		_, err := r.o.Server.AddToken(ctx, all[i])
		problem, refused := errors.AsType[*api.Problem](err)
		switch {
		case err == nil:
			sum.Arrived++
		case refused && problem.Status == http.StatusConflict:
			sum.Repeated++
		case refused && problem.Status == http.StatusBadRequest:
			sum.Refused++
			r.problem(Problem{
				ID: all[i].Description, Namespace: all[i].Namespace, Queue: all[i].Pool, State: "token",
				Problem: problem.Detail,
			})
		default:
			return err
		}
	}
	return nil
}
