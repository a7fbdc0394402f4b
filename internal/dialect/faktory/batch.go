package faktory

import (
	"time"

	"millrace/internal/dialect"
	"millrace/internal/dialect/jsonscan"
	"millrace/internal/job"
)

// How long batches are known (protocol section 13).
const (
	batchOpenFor  = 30 * time.Minute
	batchKeepFor  = 30 * 24 * time.Hour
	batchKeepDone = 24 * time.Hour
)

// batch takes a BATCH (protocol section 13).
func (c *conn) batch(u *dialect.Unit, arg []byte) (later bool) {
	sub, rest := words(arg)
	if sub == "NEW" {
		c.batchNew(u, rest)
		return false
	}
	bid, _ := nextWord(rest)
	id, ok := parseBatchID(bid)
	namespace := c.d.opts.Namespace
	r := dialect.Reply{Kind: replyBatch, Text: echo(bid)}
	switch sub {
	case "OPEN", "COMMIT", "STATUS":
		if !ok {
			u.Refuse(textNoBatch + r.Text)
			return false
		}
	default:
		u.Refuse(textBatchSub + echo([]byte(sub)))
		return false
	}
	switch sub {
	case "OPEN":
		u.AddReply(r, &job.OpenBatch{Namespace: namespace, Batch: id})
	case "COMMIT":
		r.Kind = replyCommit
		u.AddReply(r, &job.CommitBatch{Namespace: namespace, Batch: id})
	case "STATUS":
		c.arg = bid
		return true
	}
	return false
}

// batchText is the argument of BATCH NEW.
type batchText struct {
	parent, description []byte
	success, complete   []byte
}

func parseBatch(arg []byte) (b batchText, ok bool) {
	r := jsonscan.ReadObject(arg)
	for key, value, more := r.Next(); more; key, value, more = r.Next() {
		good := true
		switch string(member(key)) {
		case "parent_bid":
			b.parent, good = parseString(value)
		case "description":
			b.description, good = parseString(value)
		case "success":
			b.success, good = container(value, '{')
		case "complete":
			b.complete, good = container(value, '{')
		}
		if !good {
			return b, false
		}
	}
	return b, r.Err() == nil
}

// batchNew adds a BATCH NEW.
func (c *conn) batchNew(u *dialect.Unit, arg []byte) {
	b, ok := parseBatch(validUTF8(arg))
	switch {
	case !ok:
		u.Refuse(textInvalidBatch + echo(arg))
		return
	case b.success == nil && b.complete == nil:
		u.Refuse(textNoCallback)
		return
	}
	cmd := &job.NewBatch{
		Namespace: c.d.opts.Namespace, Text: string(cut(b.description, messageMax)),
		OpenFor: batchOpenFor, KeepFor: batchKeepFor, KeepDone: batchKeepDone,
	}
	cmd.Parent, _ = parseBatchID(b.parent) // one that is unknown is none
	var text string
	if cmd.Complete, text = c.callback(u, b.complete); text == "" {
		cmd.Success, text = c.callback(u, b.success)
	}
	if text != "" {
		u.Refuse(text)
		return
	}
	u.AddReply(dialect.Reply{Kind: replyBatch}, cmd)
}

// callback makes a spec of a callback; nil if there is none. It returns the text of
// what is wrong with it.
func (c *conn) callback(u *dialect.Unit, text []byte) (*job.Spec, string) {
	if text == nil {
		return nil, ""
	}
	cmd := u.Pushes.Get() // a push that is not submitted: only its spec is used
	var parsed jobText
	if reason := parsed.read(u, &cmd.Spec, text); reason != "" {
		return nil, textJSON + reason
	}
	if len(parsed.jid) == 0 {
		parsed.jid = []byte(newJID())
	}
	if refused := c.finishPush(&parsed, &cmd.Spec); refused != "" {
		return nil, refused
	}
	return &cmd.Spec, ""
}

// appendBatchReply answers BATCH NEW with the id that the engine gave, OPEN with the one
// that the client named.
func appendBatchReply(out []byte, r *dialect.Reply, results []job.Result) []byte {
	if r.Text != "" {
		return appendBulk(out, r.Text)
	}
	var b [32]byte
	return appendBulk(out, appendBatchID(b[:0], results[0].Batch))
}

// stages are what the protocol calls those of a callback.
var stages = [...]string{job.CallbackWaiting: "", job.CallbackPushed: "1", job.CallbackAcked: "2"}

// runBatchStatus answers BATCH STATUS for the bid in c.arg.
func (c *conn) runBatchStatus() {
	id, _ := parseBatchID(c.arg)
	info, ok, err := c.d.opts.Engine.Batch(c.d.opts.Namespace, id)
	switch {
	case err != nil:
		c.readFailed(err)
		return
	case !ok:
		c.fail(textNoBatch + echo(c.arg))
		return
	}
	out, m := beginBulk(c.Out(), 200)
	o := &object{out: out}
	o.open("")
	o.text("bid", string(appendBatchID(nil, info.ID)))
	if info.Parent != 0 {
		o.text("parent_bid", string(appendBatchID(nil, info.Parent)))
	}
	if info.Text != "" {
		o.text("description", info.Text)
	}
	o.key("created_at")
	o.out = appendTime(o.out, info.Created)
	o.number("total", info.Total)
	o.number("pending", info.Pending)
	o.number("failed", info.Failed)
	o.text("complete_st", stages[info.Complete])
	o.text("success_st", stages[info.Success])
	o.close()
	c.SetOut(m.end(o.out))
}
