package torture

import (
	"errors"
	"fmt"
	"strings"

	"millrace/internal/wire"
	"millrace/test/suite"
)

// locker takes a unique key again and again, tries to take it while it is held, and
// frees it, alone on its key, so that it always knows what the answer must be unless
// one was cut off.
type locker struct {
	proto    proto
	queue    string
	token    string
	complain func(string)
	// held is what is known about whether a job has the key.
	held           known
	count          int
	taken, refused int
}

func newLocker(number int, complain func(string)) *locker {
	k := &locker{queue: fmt.Sprintf("lock%d", number), proto: faktory, complain: complain}
	if number%2 == 1 {
		k.proto = workq
	}
	k.token = tokenOf(k.proto, k.queue)
	return k
}

func (k *locker) run(l *suite.Life, c *client) error {
	for !l.Last {
		if err := k.take(l, c); err != nil {
			return err
		}
		if k.count++; k.count%3 == 0 {
			continue // once more while it is held
		}
		if err := k.free(l, c); err != nil {
			return err
		}
		if err := l.Wait(0); err != nil {
			return err
		}
	}
	return suite.ErrNoMore
}

// take pushes a job with the key.
func (k *locker) take(l *suite.Life, c *client) error {
	var err error
	switch f := c.Client.(type) {
	case *wire.Faktory:
		// Another id each time: the key is made of type, arguments and queue.
		jid := uuidOf(fmt.Sprintf("%s.%d.%d", k.queue, l.Number, k.count))
		err = f.OK(fmt.Sprintf(`PUSH {"jid":%q,"jobtype":"t","queue":%q,"args":[%q],"custom":{"unique_for":3600}}`,
			jid, k.queue, bodyOf(k.token)))
	case *wire.Workq:
		err = c.push(k.queue, k.token)
	}
	switch {
	case err == nil:
		if k.held == confirmed {
			k.complain(fmt.Sprintf("%s was taken twice (life %d)", k.queue, l.Number))
		}
		k.taken++
	case wire.IsRefused(err) && (strings.Contains(err.Error(), "NOTUNIQUE") ||
		strings.Contains(err.Error(), "Duplicate")):
		if k.held == nothing {
			k.complain(fmt.Sprintf("%s cannot be taken although nobody has it (life %d): %v", k.queue, l.Number, err))
		}
		k.refused++
	case wire.IsRefused(err):
		return err
	default:
		if k.held == nothing {
			k.held = ambiguous
		}
		return err
	}
	k.held = confirmed
	return nil
}

// free ends the job that has the key: by its ack, or by its deletion.
func (k *locker) free(l *suite.Life, c *client) error {
	k.held = ambiguous
	err := errors.ErrUnsupported
	switch w := c.Client.(type) {
	case *wire.Faktory:
		err = k.serve(l, c)
	case *wire.Workq:
		err = w.Delete([]byte(uuidOf(k.token)))
	}
	if err != nil {
		if wire.IsRefused(err) {
			k.complain(fmt.Sprintf("%s is held and cannot be freed (life %d): %v", k.queue, l.Number, err))
		}
		return err
	}
	k.held = nothing
	return nil
}

// serve fetches the job and acks it. If its fetch was cut off before, it is leased
// to nobody, and that lease is ended first.
func (k *locker) serve(l *suite.Life, c *client) error {
	t, err := dialLife(l, tarantool)
	if err != nil {
		return err
	}
	defer t.Close() //nolint:errcheck // it has been answered
	if err := t.Client.(*wire.Tarantool).ReleaseAll(k.queue); err != nil {
		return err
	}
	d, ok, err := c.fetch(k.queue, 0)
	if err != nil {
		return err
	}
	if !ok {
		return wire.RefusedError("there is no job")
	}
	return c.ack(k.queue, d.id)
}
