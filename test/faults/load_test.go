//go:build linux

package faults

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/store/pebblestore"
)

// fate is what was asked for a job and what was answered, in that order.
type fate uint8

const (
	pushAsked fate = iota + 1
	pushed
	endAsked // an ack or a delete
	ended
)

// ledger is what the callers of an engine know. A job is named by its body.
type ledger struct {
	mu    sync.Mutex // guards fates and late
	fates map[string]fate
	late  int // answers without an error to what was asked after the engine had failed
}

func newLedger() *ledger { return &ledger{fates: map[string]fate{}} }

// note notes how far jobs are. Another caller may have brought them further before the one that pushed them got to it.
func (l *ledger) note(f fate, bodies ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range bodies {
		l.fates[b] = max(l.fates[b], f)
	}
}

func (l *ledger) now() map[string]fate {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.fates)
}

// bodyFor returns a body that tells whether it is whole.
func bodyFor(name string, size int) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	return name + " " + strings.Repeat(fmt.Sprintf("%016x", h.Sum64()), size)
}

func isWhole(body string) bool {
	name, rest, ok := strings.Cut(body, " ")
	return ok && body == bodyFor(name, len(rest)/16)
}

// caller pushes, fetches and ends jobs, one command after the other.
type caller struct {
	*engine.Caller
	engine *engine.Engine
	ledger *ledger
	rng    *rand.Rand
	name   string
	count  int
}

func newCaller(e *engine.Engine, l *ledger, name string, seed uint64) *caller {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	return &caller{Caller: e.NewCaller(), engine: e, ledger: l, rng: rand.New(rand.NewPCG(seed, h.Sum64())), name: name}
}

func (c *caller) body() string {
	c.count++
	return bodyFor(fmt.Sprintf("%s-%d", c.name, c.count), c.rng.IntN(40))
}

// do does one command and returns its result, or nil if the engine has refused it because it
// has ended.
func (c *caller) do(ctx context.Context, cmd job.Command) *job.Result {
	over := c.engine.Err() != nil
	r := &c.Do(ctx, cmd)[0]
	if r.Err != nil && (r.Err.Kind == job.Internal || r.Err.Kind == job.Draining) {
		return nil
	}
	if over {
		c.ledger.mu.Lock()
		c.ledger.late++
		c.ledger.mu.Unlock()
	}
	return r
}

// step does something at random. It reports whether the engine still takes commands.
func (c *caller) step(ctx context.Context) bool {
	queue := fmt.Sprint("q", c.rng.IntN(3))
	switch c.rng.IntN(8) {
	case 0, 1, 2:
		body := c.body()
		c.ledger.note(pushAsked, body)
		r := c.do(ctx, push(queue, body))
		if r != nil && r.Err == nil {
			c.ledger.note(pushed, body)
		}
		return r != nil
	case 3:
		a, b := c.body(), c.body()
		c.ledger.note(pushAsked, a, b)
		r := c.do(ctx, &job.Atomic{Ops: []job.Command{push(queue, a), push("q2", b)}})
		if r != nil && r.Err == nil {
			c.ledger.note(pushed, a, b)
		}
		return r != nil
	default:
		return c.work(ctx, queue)
	}
}

// work fetches a job and settles it.
func (c *caller) work(ctx context.Context, queue string) bool {
	r := c.do(ctx, &job.Fetch{Namespace: namespace, Queues: []string{queue, "q0"}, Max: 1, DefaultLease: long})
	if r == nil || len(r.Jobs) == 0 {
		return r != nil
	}
	j := r.Jobs[0]
	ref, body := job.ByPlace(namespace, j.QueueNum, j.ID), string(j.Body)
	var cmd job.Command
	switch c.rng.IntN(5) {
	case 0:
		return true // it stays leased
	case 1:
		return c.do(ctx, &job.Fail{Ref: ref, Need: job.NeedLeased}) != nil
	case 2:
		cmd = &job.Delete{Ref: ref, Need: job.NeedLeased}
	default:
		cmd = &job.Ack{Ref: ref, Need: job.NeedLeased}
	}
	c.ledger.note(endAsked, body)
	r = c.do(ctx, cmd)
	if r != nil && r.Err == nil {
		c.ledger.note(ended, body)
	}
	return r != nil
}

// load runs callers until each has taken so many steps, or the engine has ended.
func load(ctx context.Context, e *engine.Engine, l *ledger, name string, callers, steps int) {
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			c := newCaller(e, l, fmt.Sprint(name, i), *seedFlag)
			for range steps {
				if !c.step(ctx) {
					return
				}
			}
		})
	}
	wg.Wait()
}

// judge opens a directory and compares it with what callers had been told when its state was the newest, and
// with what they had asked for afterwards. It returns how many jobs there are, and how many nobody was told about.
func judge(t *testing.T, fsys vfs.FS, dir string, told, asked map[string]fate) (jobs, ambiguous int, err error) {
	t.Helper()
	s, err := pebblestore.Open(pebblestore.Options{
		Dir: dir, FS: fsys, MemTableBytes: memTableBytes,
		SegmentBytes: segmentBytes,
	})
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := engine.CheckInvariants(s, job.TimeOf(time.Now()), nil); err != nil {
		return 0, 0, err
	}
	there := map[string]bool{}
	q := engine.NewQuery(s)
	queues, err := q.Queues(namespace, "", 0)
	if err != nil {
		return 0, 0, err
	}
	for i := range queues {
		for state := range job.State(job.StateCount) {
			if queues[i].Counts[state] == 0 {
				continue
			}
			page, err := q.List(engine.ListOptions{
				Namespace: namespace, Queue: queues[i].Name, State: state,
				Limit: 1 << 30, Bodies: true,
			})
			if err != nil {
				return 0, 0, err
			}
			for i := range page.Jobs {
				body := string(page.Jobs[i].Body)
				if !isWhole(body) || there[body] {
					return 0, 0, fmt.Errorf("job %d is there twice or has the body %.60q", page.Jobs[i].ID, body)
				}
				there[body] = true
			}
		}
	}
	return len(there), ambiguousOf(there, told, asked), verdict(there, told, asked)
}

// verdict returns what is wrong with the jobs that are there.
func verdict(there map[string]bool, told, asked map[string]fate) error {
	var errs []error
	for body := range there {
		switch {
		case asked[body] == 0:
			errs = append(errs, fmt.Errorf("nobody has pushed %.40s", body))
		case told[body] == ended:
			errs = append(errs, fmt.Errorf("%.40s is back after its end was acknowledged", body))
		}
	}
	for body, f := range told {
		if f == pushed && asked[body] < endAsked && !there[body] {
			errs = append(errs, fmt.Errorf("%.40s was acknowledged and is lost", body))
		}
	}
	if len(errs) > 5 {
		errs = append(errs[:5], fmt.Errorf("and %d more", len(errs)-5))
	}
	return errors.Join(errs...)
}

// ambiguousOf counts what may be either way: a caller was waiting for the answer.
func ambiguousOf(there map[string]bool, told, asked map[string]fate) (n int) {
	for body := range there {
		if told[body] != pushed {
			n++
		}
	}
	for body, f := range told {
		if f == pushed && asked[body] >= endAsked && !there[body] {
			n++
		}
	}
	return n
}
