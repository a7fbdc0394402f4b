package masenko

import (
	"bytes"
	"strconv"

	"millrace/internal/dialect"
	"millrace/internal/job"
)

// atomicMax is how many requests a transaction may have.
const atomicMax = 65535

// transaction is what has come between ATOMIC and DONE. The lines are collected
// as they are and looked at only at DONE (protocol section 5).
type transaction struct {
	text []byte // the lines, one after the other
	// claim is what text has of the memory of all connections.
	claim dialect.Claim
	ends  []int // where each line ends in text
	over  bool  // beyond a limit: the rest is dropped, DONE refuses

	ops      []job.Command
	messages []int // the line that each op came from
	acks     []txAck
	// failed is the text of the first malformed line, which stands as the last
	// op, one that the engine must refuse.
	failed string
}

// txAck is an ACK of a transaction.
type txAck struct {
	op     int
	number uint32
}

// collect takes a line between ATOMIC and DONE.
func (c *conn) collect(u *dialect.Unit, v verb, line []byte) {
	tx := c.tx
	if v == verbDone {
		c.tx = nil
		c.finish(u, tx)
		tx.claim.Drop()
		return
	}
	if tx.over || len(tx.ends) == atomicMax || len(tx.text)+len(line) > c.d.opts.MaxAtomic ||
		!tx.grow(c.d.opts.Shared, len(line)) {
		tx.over, tx.text, tx.ends = true, nil, nil
		tx.claim.Drop()
		return
	}
	tx.text = append(tx.text, line...)
	tx.ends = append(tx.ends, len(tx.text))
}

// grow makes room for n more bytes; not ok if all connections together have too many.
func (tx *transaction) grow(shared *dialect.Shared, n int) (ok bool) {
	need := len(tx.text) + n
	if need <= cap(tx.text) {
		return true
	}
	size := max(need, 2*cap(tx.text))
	if !tx.claim.Set(shared, size) {
		return false
	}
	tx.text = append(make([]byte, 0, size), tx.text...)
	return true
}

// finish adds the transaction to the unit.
func (c *conn) finish(u *dialect.Unit, tx *transaction) {
	if tx.over {
		u.Refuse(textAtomicBig)
		return
	}
	c.buildOps(tx)
	switch {
	case tx.failed == "":
		u.AddReply(dialect.Reply{More: tx}, &job.Atomic{Ops: tx.ops})
	case len(tx.acks) == 0:
		u.Refuse(tx.failed)
	default:
		// The first error counts, and an ACK before the malformed line may be one.
		// Only the engine can tell: it is asked with an op at the end that no
		// engine accepts, so nothing takes effect either way.
		tx.ops = append(tx.ops, &job.Ack{Ref: job.ByNumber(c.d.opts.Namespace, 0), By: c.holder, Need: job.NeedHeld})
		u.AddReply(dialect.Reply{More: tx}, &job.Atomic{Ops: tx.ops})
	}
}

// buildOps makes an op of each line, up to the first that is malformed.
func (c *conn) buildOps(tx *transaction) {
	pushes, start := 0, 0
	for i, end := range tx.ends {
		word, body := splitLine(tx.text[start:end:end])
		start = end
		v := parseVerb(word)
		switch v {
		case verbPush:
			cmd := new(job.Push)
			if text := c.buildPush(cmd, body, pushes); text != "" {
				tx.failed = inMessage(i, v, text)
				return
			}
			pushes++
			tx.ops = append(tx.ops, cmd)
		case verbAck:
			number, text := settleID(body)
			if text != "" {
				tx.failed = inMessage(i, v, text)
				return
			}
			tx.acks = append(tx.acks, txAck{op: len(tx.ops), number: number})
			tx.ops = append(tx.ops, &job.Ack{Ref: c.ref(number), By: c.holder, Need: job.NeedHeld})
		case verbUnknown, verbPing, verbFetch, verbNack, verbInfo, verbQuit, verbAtomic, verbDone:
			tx.failed = string(bytes.ToUpper(word[:min(len(word), verbShown)])) + textNotAllowed
			return
		}
		tx.messages = append(tx.messages, i)
	}
}

// refusal is the text for the engine's refusal of a transaction.
func (tx *transaction) refusal(err *job.Error) string {
	if tx.failed != "" && err.Index == len(tx.ops)-1 {
		return tx.failed
	}
	if err.Index < 0 || err.Index >= len(tx.messages) {
		return refusal(err.Kind)
	}
	text := refusal(err.Kind)
	for _, a := range tx.acks {
		if a.op == err.Index {
			if text == textNotAcquired {
				return "task " + strconv.FormatUint(uint64(a.number), 10) + " not acquired"
			}
			return inMessage(tx.messages[err.Index], verbAck, text)
		}
	}
	switch err.Kind {
	case job.Internal, job.Draining, job.NoSpace, job.Timeout, job.Canceled:
		return text // not the fault of one line
	case job.Invalid, job.NotFound, job.Duplicate, job.Exists, job.NotLeased, job.NotOwner, job.Finished,
		job.BadState, job.Full, job.Busy, job.Waiting, job.TooLarge, job.Locked, job.Overloaded,
		job.ManyQueues, job.Lapsing:
		return inMessage(tx.messages[err.Index], verbPush, text)
	}
	return text
}
