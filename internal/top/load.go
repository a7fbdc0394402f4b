package top

import (
	"context"
	"fmt"
	"time"

	"millrace/internal/api"
	"millrace/internal/job"
)

// API is what is asked of a server. A client of the operator API is one.
type API interface {
	Server(ctx context.Context) (api.ServerInfo, error)
	Live(ctx context.Context) (api.Sample, error)
	Queues(ctx context.Context, f api.QueueFilter, page api.PageOf) (api.QueuePage, error)
	Jobs(ctx context.Context, f api.Filter, page api.PageOf) (api.JobPage, error)
	Pause(ctx context.Context, namespace, queue string, limit time.Duration) (api.Queue, error)
	Resume(ctx context.Context, namespace, queue string) (api.Queue, error)
	ActAll(ctx context.Context, a api.Action, targets []api.Target, with api.With) ([]api.Outcome, error)
}

// page is one of the lists that can be looked at.
type page uint8

const (
	pageQueues page = iota
	pageRunning
	pageRetrying
	pageDead
	pageCount = int(pageDead) + 1
)

var pageTitles = [pageCount]string{"Queues", "Running", "Retrying", "Dead"}

// pageStates are the states of the jobs of a page.
var pageStates = [pageCount][]string{
	pageRunning:  {job.Leased.Name()},
	pageRetrying: {job.Retrying.Name()},
	pageDead:     {job.Dead.Name(), job.Failed.Name(), job.Buried.Name()},
}

// queueRef names a queue; the zero value is every one.
type queueRef struct{ namespace, name string }

// query says what is looked at.
type query struct {
	page   page
	filter string   // a part of a name
	queue  queueRef // whose jobs
}

// Snapshot is what the server has answered.
type Snapshot struct {
	Server api.ServerInfo `json:"server"`
	Live   api.Sample     `json:"live"`
	Queues []api.Queue    `json:"queues,omitempty"`
	Jobs   []api.JobRow   `json:"jobs,omitempty"`
	// More tells that there are more queues or jobs than were asked for.
	More bool `json:"more"`

	of query
}

// askTimeout bounds how long the server may take to answer everything.
const askTimeout = 10 * time.Second

// load asks the server for what a page shows.
func load(ctx context.Context, server API, q query) (s Snapshot, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	s.of = q
	if s.Server, err = server.Server(ctx); err != nil {
		return s, err
	}
	if s.Live, err = server.Live(ctx); err != nil {
		return s, err
	}
	if q.page == pageQueues {
		p, err := server.Queues(ctx, api.QueueFilter{Name: q.filter}, api.PageOf{Limit: api.PageMax})
		s.Queues, s.More = p.Queues, p.Next != ""
		return s, err
	}
	f := api.Filter{Namespace: q.queue.namespace, Queue: q.queue.name, States: pageStates[q.page]}
	p, err := server.Jobs(ctx, f, api.PageOf{Limit: api.PageMax})
	s.Jobs, s.More = p.Jobs, p.Next != ""
	return s, err
}

// order is something to be done to a queue or to a job.
type order struct {
	text   string // what was done, for people
	queue  queueRef
	paused bool // of a queue: it is to be paused, else resumed
	action api.Action
	target api.Target
}

// carryOut does what was ordered.
func carryOut(ctx context.Context, server API, o order) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var err error
	switch {
	case o.action != "":
		var outcomes []api.Outcome
		outcomes, err = server.ActAll(ctx, o.action, []api.Target{o.target}, api.With{})
		for _, out := range outcomes {
			if out.Problem != nil {
				return fmt.Errorf("job %d: %w", out.ID, out.Problem)
			}
		}
	case o.paused:
		_, err = server.Pause(ctx, o.queue.namespace, o.queue.name, 0)
	default:
		_, err = server.Resume(ctx, o.queue.namespace, o.queue.name)
	}
	return err
}
