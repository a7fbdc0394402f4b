package operator

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"millrace/internal/api"
	"millrace/internal/engine"
	"millrace/internal/job"
)

func bulkEnded(b *api.Bulk) bool { return b.State != api.BulkWaiting && b.State != api.BulkRunning }

// bulkRecord is a bulk action as it is kept. Its form is JSON, so that fields may be added.
type bulkRecord struct {
	api.Bulk
	Begun job.Time `json:"begun"`
	At    position `json:"at"`
}

const (
	// bulkSpace is where bulk actions are kept, under their ids.
	bulkSpace = "admin.bulk"

	bulkOpenMax = 20             // that have not ended
	bulkKeptMax = 100            // that have
	bulkKeptFor = 24 * time.Hour // after their end

	// A bulk action finds the jobs of this many steps at a time, and looks at this many for each of those.
	bulkFind    = 4
	bulkExamine = 5
)

// bulkRunner runs the bulk actions, one at a time, the oldest first.
type bulkRunner struct {
	s    *Service
	wake chan struct{} // capacity 1: there is something to do

	step sync.Mutex // held while a step is made; locked before mu
	todo bulkTodo   // guarded by step
	pace pace       // guarded by step

	mu       sync.Mutex // guards what follows
	all      map[string]*bulkRecord
	starting int   // that are being kept for the first time
	last     int64 // the number of the newest
}

// bulkTodo are the jobs that a bulk action has found and not yet acted on.
type bulkTodo struct {
	of       string // the bulk action; empty: look for more
	jobs     []api.Target
	fresh    bool     // none of them has been acted on
	behind   position // where the action is when they are done
	complete bool     // and whether nothing is left then
}

// init takes up what an earlier run has left.
func (r *bulkRunner) init(s *Service) error {
	r.s, r.wake, r.all = s, make(chan struct{}, 1), make(map[string]*bulkRecord)
	values, err := s.engine.Values(bulkSpace, "", 0)
	if err != nil {
		return fmt.Errorf("read bulk actions: %w", err)
	}
	for _, v := range values {
		var b bulkRecord
		if err := json.Unmarshal(v.Value, &b); err != nil || b.ID != v.Name {
			s.log.Warn("a bulk action cannot be read and is left alone", slog.String("id", v.Name),
				slog.Any("error", err))
			continue
		}
		r.all[b.ID] = &b
		if n, err := strconv.ParseInt(b.ID, 36, 64); err == nil {
			r.last = max(r.last, n)
		}
	}
	return nil
}

// StartBulk begins an action on all jobs that fit a filter.
func (s *Service) StartBulk(ctx context.Context, a api.Action, f api.Filter, with api.With) (api.Bulk, error) {
	if err := checkAction(a, with); err != nil {
		return api.Bulk{}, err
	}
	m, err := bulkMatcher(a, f)
	if err != nil {
		return api.Bulk{}, err
	}
	r := &s.bulk
	b := &bulkRecord{
		Bulk:  api.Bulk{Action: a, With: with, Filter: f, State: api.BulkWaiting, Created: time.Now().UTC()},
		Begun: s.engine.Now(), At: position{List: "bulk"},
	}
	if err := s.view(func(v *engine.View) error {
		sc := &scan{view: v, match: m, skip: with.To, sums: s.engine.Sums}
		err := sc.count()
		b.At.Total, b.Total = sc.at.Total, sc.at.Total
		return err
	}); err != nil {
		return api.Bulk{}, err
	}
	if err := r.admit(b); err != nil {
		return api.Bulk{}, err
	}
	// It is kept before it is answered: what an operator has been told to happen does. On a full disk it
	// may not be kept, and may be what makes room.
	out := b.Bulk
	_, err = s.do(ctx, r.value(b))
	kept := err == nil || s.engine.Stats().NoSpace
	r.mu.Lock()
	r.starting--
	if kept {
		r.all[b.ID] = b
	}
	r.mu.Unlock()
	if !kept {
		return api.Bulk{}, err
	}
	r.notify()
	s.Note(ctx, 0, "%s all jobs that match: %s", a, f.String())
	return out, nil
}

// bulkMatcher narrows a filter down to the states that the action applies to.
func bulkMatcher(a api.Action, f api.Filter) (*matcher, error) {
	m, err := newMatcher(f)
	if err != nil {
		return nil, err
	}
	fits := a.States()
	if m.states != 0 {
		fits &= m.states
	}
	if fits == 0 {
		return nil, api.Invalid("filter: %s applies to no job in these states", a)
	}
	m.states = fits
	return m, nil
}

// admit gives a bulk action its id, unless there are too many. It is not known before it is kept.
func (r *bulkRunner) admit(b *bulkRecord) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	open := r.starting
	for _, other := range r.all {
		if !bulkEnded(&other.Bulk) {
			open++
		}
	}
	if open >= bulkOpenMax {
		return api.ProblemTooMany.New("%d bulk actions have not ended: wait for one, or cancel it", open)
	}
	r.last = max(r.last+1, int64(b.Begun))
	b.ID = strconv.FormatInt(r.last, 36)
	r.starting++
	return nil
}

func (r *bulkRunner) notify() {
	select {
	case r.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// value is the command that keeps a bulk action.
func (r *bulkRunner) value(b *bulkRecord) job.Command {
	text, err := json.Marshal(b)
	if err != nil {
		panic("operator: a bulk action cannot be written: " + err.Error()) // it holds texts, times and numbers
	}
	return &job.SetValue{Space: bulkSpace, Name: b.ID, Value: text}
}

// Bulk returns a bulk action.
func (s *Service) Bulk(id string) (api.Bulk, error) {
	s.bulk.mu.Lock()
	defer s.bulk.mu.Unlock()
	b := s.bulk.all[id]
	if b == nil {
		return api.Bulk{}, noBulk(id)
	}
	return b.Bulk, nil
}

func noBulk(id string) error {
	return api.NotFound("there is no bulk action %q: those that have ended are forgotten after a day", id)
}

// Bulks lists the bulk actions, the newest first.
func (s *Service) Bulks(page api.PageOf) (api.BulkPage, error) {
	out := api.BulkPage{Bulk: []api.Bulk{}}
	limit, at, err := beginPage(page, "bulk", "")
	if err != nil {
		return out, err
	}
	for _, b := range s.bulk.sorted() {
		if at.After != "" && compareIDs(b.ID, at.After) >= 0 {
			continue
		}
		if len(out.Bulk) == limit {
			at.After = out.Bulk[limit-1].ID
			out.Next = at.cursor()
			break
		}
		out.Bulk = append(out.Bulk, b)
	}
	return out, nil
}

// compareIDs compares the ids of bulk actions as the numbers that they are.
func compareIDs(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }

// sorted returns copies of all bulk actions, the newest first.
func (r *bulkRunner) sorted() []api.Bulk {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]api.Bulk, 0, len(r.all))
	for _, b := range r.all {
		list = append(list, b.Bulk)
	}
	slices.SortFunc(list, func(a, b api.Bulk) int { return compareIDs(b.ID, a.ID) })
	return list
}

// CancelBulk stops a bulk action. When it returns nothing more is done by it; what was done
// stays. To cancel one that has ended changes nothing.
func (s *Service) CancelBulk(ctx context.Context, id string) (api.Bulk, error) {
	r := &s.bulk
	r.step.Lock() // the step in progress ends first
	defer r.step.Unlock()
	r.mu.Lock()
	b := r.all[id]
	if b == nil {
		r.mu.Unlock()
		return api.Bulk{}, noBulk(id)
	}
	if !bulkEnded(&b.Bulk) {
		b.end(api.BulkCancelled, "")
	}
	cmd, out := r.value(b), b.Bulk
	r.mu.Unlock()
	_, err := s.do(ctx, cmd)
	s.Note(ctx, 0, "stop the bulk action %s", id)
	return out, err
}

func (b *bulkRecord) end(state api.BulkState, problem string) {
	now := time.Now().UTC()
	b.State, b.Ended, b.Problem = state, &now, problem
}

// ForgetBulk forgets a bulk action that has ended.
func (s *Service) ForgetBulk(ctx context.Context, id string) error {
	r := &s.bulk
	r.mu.Lock()
	b := r.all[id]
	if b == nil {
		r.mu.Unlock()
		return noBulk(id)
	}
	if !bulkEnded(&b.Bulk) {
		r.mu.Unlock()
		return api.ProblemConflict.New("the bulk action is %s: cancel it first", b.State)
	}
	delete(r.all, id)
	r.mu.Unlock()
	_, err := s.do(ctx, &job.DropValue{Space: bulkSpace, Name: id})
	return err
}
