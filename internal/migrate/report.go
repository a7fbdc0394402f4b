package migrate

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"

	"millrace/internal/api"
	"millrace/internal/dialect"
	"millrace/internal/job"
)

// Report tells what a migration has done.
type Report struct {
	Protocol string  `json:"protocol"`
	Source   string  `json:"source"`
	DryRun   bool    `json:"dry_run"`
	Seconds  float64 `json:"seconds"`
	// Left is how many jobs the source has at the end.
	Left uint64 `json:"source_jobs"`
	Rows []*Row `json:"queues"`
	// Tokens are those of clients; nil if the source has none.
	Tokens *TokenSum `json:"tokens,omitempty"`
	// Problems are those that were noted; ProblemsMore counts others.
	Problems     []Problem `json:"problems"`
	ProblemsMore uint64    `json:"problems_more,omitempty"`

	mu    sync.Mutex // the reader and the sender write
	rows  map[place]*Row
	space string // the namespace here
}

// Row compares both sides for one queue and state.
type Row struct {
	Namespace string `json:"namespace,omitempty"`
	Queue     string `json:"queue"`
	State     string `json:"state"`   // at the source
	Read      uint64 `json:"read"`    // that were there
	Arrived   uint64 `json:"arrived"` // by this run
	Repeated  uint64 `json:"repeated"`
	Refused   uint64 `json:"refused"`
	Here      uint64 `json:"here"` // jobs of that queue and state here at the end, whoever pushed them
}

// TokenSum counts tokens.
type TokenSum struct {
	Read     int `json:"read"`
	Arrived  int `json:"arrived"`
	Repeated int `json:"repeated"` // they were there before
	Refused  int `json:"refused"`
}

// Problem tells of a job that was not taken over, or not whole.
type Problem struct {
	ID        string `json:"id"`
	Namespace string `json:"namespace,omitempty"`
	Queue     string `json:"queue"`
	State     string `json:"state"`
	Partly    bool   `json:"partly"` // it was taken over, except for what is told
	Problem   string `json:"problem"`
}

// problemsMax bounds the problems that a report keeps.
const problemsMax = 10_000

func newReport(protocol, source string, dry bool) *Report {
	return &Report{Protocol: protocol, Source: source, DryRun: dry, Problems: []Problem{}, rows: make(map[place]*Row)}
}

// row returns the row of a place. The lock is held.
func (r *Report) row(p place) *Row {
	row := r.rows[p]
	if row == nil {
		row = &Row{Namespace: p.namespace, Queue: p.queue, State: p.state}
		r.rows[p] = row
	}
	return row
}

// left counts a job that was not sent.
func (r *Report) left(p place) {
	r.mu.Lock()
	defer r.mu.Unlock()
	row := r.row(p)
	row.Read++
	row.Refused++
}

// took counts what has become of jobs that were sent.
func (r *Report) took(jobs []place, result *api.MigrationResult) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.space = cmp.Or(result.Namespace, r.space)
	var last place
	var row *Row
	for i, p := range jobs {
		if row == nil || p != last {
			last, row = p, r.row(p)
		}
		row.Read++
		switch result.Lines[i] {
		case api.LineArrived:
			row.Arrived++
		case api.LineRepeated:
			row.Repeated++
		default:
			row.Refused++
		}
	}
}

func (r *Report) problem(p Problem) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.Problems) == problemsMax {
		r.ProblemsMore++
		return
	}
	r.Problems = append(r.Problems, p)
}

// Jobs returns how many jobs have been dealt with.
func (r *Report) Jobs() uint64 { return r.Sum().Read }

// Sum adds up the rows of jobs, and what was left behind.
func (r *Report) Sum() Row {
	r.mu.Lock()
	defer r.mu.Unlock()
	var sum Row
	for p, row := range r.rows {
		sum.Refused += row.Refused
		if !dialect.IsJob(p.state) {
			continue
		}
		sum.Read += row.Read
		sum.Arrived += row.Arrived
		sum.Repeated += row.Repeated
	}
	return sum
}

// compare looks at the queues here, and puts the rows in order.
func (r *Report) compare(ctx context.Context, server Server) error {
	for p, row := range r.rows {
		r.Rows = append(r.Rows, row)
		q, err := server.Queue(ctx, cmp.Or(p.namespace, r.space), p.queue)
		if problem, ok := errors.AsType[*api.Problem](err); ok && problem.Status == http.StatusNotFound {
			continue
		}
		if err != nil {
			return err
		}
		row.Here = count(&q, p.state)
	}
	slices.SortFunc(r.Rows, func(a, b *Row) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Queue, b.Queue),
			strings.Compare(a.State, b.State))
	})
	return nil
}

// count returns how many jobs of a queue are in the state in which those of another arrive.
func count(q *api.Queue, state string) uint64 {
	switch state {
	case dialect.StatePaused:
		if q.Paused {
			return 1
		}
		return 0
	case dialect.StateQueue:
		return 1
	case job.Leased.String():
		state = job.Ready.String()
	}
	return q.Counts[state]
}
