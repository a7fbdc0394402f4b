package torture

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"millrace/internal/wire"
	"millrace/test/suite"
)

// worker fetches jobs and mostly acknowledges them; it fails some, and now and then
// it keeps one and lets the crash decide.
type worker struct {
	*yard
	proto  proto
	number int
	rnd    *rand.Rand
	// kept are jobs that it still holds from an earlier life, which it can where a
	// lease belongs to no connection, and with them those whose ack was cut off.
	kept          []*held
	life, keptNow int // how many jobs it has kept in this life
}

func (w *worker) work(l *suite.Life, c *client) error {
	for {
		select {
		case <-w.empty:
			return suite.ErrNoMore
		default:
		}
		if l.Nodes != nil && l.Over() {
			return suite.ErrLifeOver
		}
		if err := w.once(l, c); err != nil {
			return err
		}
	}
}

// once fetches a job and decides what becomes of it.
func (w *worker) once(l *suite.Life, c *client) error {
	w.busy.RLock()
	defer w.busy.RUnlock()
	if err := w.resume(l, c); err != nil {
		return err
	}
	h, err := w.next(l, c)
	if err != nil || h == nil {
		return err
	}
	if w.watch != nil {
		w.watch.seen(h.token)
	}
	switch p := w.rnd.IntN(100); {
	case p < 2 && !l.Last && w.keeps(l):
		if !w.proto.connected() {
			h.kept = l.Number
			w.kept = append(w.kept, h)
		}
		return nil
	case p >= 2 && p < 4 && !l.Last:
		w.book.letGo(h)
		if w.watch != nil {
			w.watch.settling(h.token, false)
		}
		if err := c.fail(h.queue, h.id); err != nil && !wire.IsRefused(err) {
			w.unanswered(l, h)
			return err
		}
		return nil
	}
	return w.settle(l, c, h)
}

// keptMax is how many jobs a worker keeps in one life. They take the places of others: without a bound a life of a
// minute would end with nothing left to do.
const keptMax = 10

// keeps reports whether the worker keeps one more job.
func (w *worker) keeps(l *suite.Life) bool {
	if w.life != l.Number {
		w.life, w.keptNow = l.Number, 0
	}
	w.keptNow++
	return w.keptNow <= keptMax
}

// next fetches a job from one of the queues.
func (w *worker) next(l *suite.Life, c *client) (*held, error) {
	queue := w.queues[w.rnd.IntN(len(w.queues))]
	if w.proto == faktory {
		queue += " " + strings.Join(w.queues, " ") // it waits long, so let it wait for all of them
	}
	sent := time.Now()
	d, ok, err := c.fetch(queue, 50*time.Millisecond)
	if err != nil || !ok {
		return nil, err
	}
	now := time.Now()
	w.fetch.add(now.Sub(sent))
	// While nodes fail, a lease ends with a connection that another one has, or with the leader, and the life goes on
	// for others.
	return w.book.delivered(d, w.proto, queue, l.Number, w.number, sent, now, l.Unsteady()), nil
}

// resume settles what the worker has had in its hands when the server was killed.
func (w *worker) resume(l *suite.Life, c *client) error {
	for len(w.kept) > 0 && w.kept[0].kept < l.Number {
		h := w.kept[0]
		if w.taken || !time.Now().Before(h.until) || !w.book.lasting(h, l.Number) {
			w.book.letGo(h) // somebody else may have it by now
		} else if err := w.settle(l, c, h); err != nil {
			return err
		}
		w.kept = w.kept[1:]
	}
	return nil
}

// faktoryStops is what a server that is being stopped says to every command of Faktory: it tells nothing about the job.
const faktoryStops = "shutdown in progress"

// settle acks a job. If the answer is cut off, the job stays among those that the
// worker has in its hands, if it can have any.
func (w *worker) settle(l *suite.Life, c *client, h *held) error {
	if w.watch != nil {
		w.watch.settling(h.token, true)
	}
	w.book.acking(h, l.Number)
	err := c.ack(h.queue, h.id)
	now := time.Now()
	w.book.heard(h, now)
	switch {
	case err == nil:
		w.book.acked(h, w.proto, now)
	case wire.IsRefused(err) && !strings.Contains(err.Error(), faktoryStops):
		w.book.refused(h, now, err.Error())
	default:
		w.unanswered(l, h)
		w.leave() // it may be done; if not, who does it gives the place back once more
		h.unsure, h.kept = true, l.Number
		if !w.proto.connected() && !slices.Contains(w.kept, h) {
			w.kept = append(w.kept, h)
		}
		return err
	}
	w.leave()
	if pushedBy(h.token) == workq && w.book.sweep(h.token) {
		select {
		case w.swept <- h.token:
		default: // it is kept, then
		}
	}
	return nil
}

// unanswered notes that nobody has said what became of a request about a job. What was sent to a node that is paused or
// cut off may be carried out when that ends.
func (w *worker) unanswered(l *suite.Life, h *held) {
	if l.Nodes != nil {
		w.book.haunt(h, time.Now())
	}
}
