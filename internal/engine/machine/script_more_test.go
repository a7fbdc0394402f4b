package machine_test

import (
	"fmt"
	"strings"
	"time"

	"millrace/internal/job"
)

// states is a set of states by their names.
func (a *args) states(name string) job.States {
	var set job.States
	for _, v := range a.list(name) {
		st, ok := job.ParseState(v)
		if !ok {
			a.s.fatalf("%s: unknown state %q", name, v)
		}
		set |= job.StatesOf(st)
	}
	return set
}

// digest is a short text as one.
func (a *args) digest(name string) (d job.Digest) {
	copy(d[:], a.text(name))
	return d
}

// past is what a pushed job has behind it; its failures are by their messages, a minute apart.
func (a *args) past() *job.Past {
	if _, ok := a.vals["past"]; !ok {
		return nil
	}
	p := &job.Past{
		State: a.state("past"), Created: a.moment("created"), Since: a.moment("since"),
		Attempts: uint32(a.number("tried")), Fails: uint32(a.number("failed")), Buries: uint32(a.number("buries")),
		Lapses: uint32(a.number("lapses")), Releases: uint32(a.number("releases")), Kicks: uint32(a.number("kicks")),
		BuriedLast: a.flag("last"),
		Rank:       a.number("rank"), At: a.moment("orderat"), OldPlace: a.flag("oldplace"),
		Result:      []byte(a.text("result")),
		LockedUntil: a.moment("lockeduntil"), Tried: a.flag("hadfailed"), Role: roles[a.text("role")],
	}
	for i, text := range a.list("failures") {
		p.Failures = append(p.Failures, job.Failure{
			At:   start.Add(time.Duration(i) * time.Minute),
			Kind: job.FailedByLapse, Message: text,
		})
	}
	return p
}

// roles are what a job with a past is to its batch.
var roles = map[string]job.Flags{
	"complete": job.FlagOnComplete, "success": job.FlagOnSuccess, "tick": job.FlagTick,
	"both": job.FlagOnComplete | job.FlagOnSuccess,
}

// batchPast is what a batch has behind it.
func (a *args) batchPast() *job.BatchPast {
	if !a.flag("past") {
		return nil
	}
	return &job.BatchPast{
		Created: a.moment("created"), Committed: a.moment("committed"), Succeeded: a.moment("succeeded"),
		Acked:    uint64(a.number("acked")),
		Complete: job.Callback(a.number("completestage")), Success: job.Callback(a.number("successstage")),
	}
}

// rest is what a batch with a past had in all.
func (a *args) rest() *job.BatchRest {
	if _, ok := a.vals["total"]; !ok {
		return nil
	}
	return &job.BatchRest{Total: uint64(a.number("total")), Open: a.flag("open")}
}

func (a *args) batch() job.BatchID { return job.BatchID(a.number("id")) }

// callback is the spec of a callback: its words are joined by slashes, so that it is
// one word of its line.
func (a *args) callback(name string) *job.Spec {
	v, ok := a.take(name)
	if !ok {
		return nil
	}
	c := a.s.parse("push " + strings.ReplaceAll(v, "/", " "))
	spec := c.spec()
	c.end()
	return &spec
}

func newBatchCommand(a *args) job.Command {
	c := &job.NewBatch{
		Namespace: a.namespace(), Parent: job.BatchID(a.number("parent")), Text: a.text("text"),
		Complete: a.callback("complete"), Success: a.callback("success"),
		OpenFor: job.WaitForever, KeepFor: job.WaitForever, KeepDone: job.WaitForever,
		Past: a.batchPast(),
	}
	for name, d := range map[string]*time.Duration{
		"openfor": &c.OpenFor, "keepfor": &c.KeepFor,
		"keepdone": &c.KeepDone,
	} {
		if _, ok := a.vals[name]; ok {
			*d = a.duration(name)
		}
	}
	return c
}

func reportCommand(a *args) job.Command {
	_, percent := a.vals["percent"]
	_, text := a.vals["text"]
	return &job.Report{
		Namespace: a.namespace(), Key: a.text("key"), Percent: a.number("percent"), SetPercent: percent,
		Text: a.text("text"), SetText: text, Until: a.moment("until"),
	}
}

var outcomeNames = [...]string{job.Alive: "alive", job.Succeeded: "succeeded", job.Died: "died"}

func showProgress(s *script, a *args) {
	ns, key := a.namespace(), a.text("key")
	a.end()
	p, ok, err := s.query().Progress(ns, key, s.now)
	if err != nil {
		s.fatalf("progress: %v", err)
	}
	if !ok {
		s.printf("none")
		return
	}
	line := outcomeNames[p.Outcome]
	if p.Outcome == job.Alive {
		line += " " + p.State.String()
	}
	if p.HasPercent {
		line += fmt.Sprintf(" %d%%", p.Percent)
	}
	if p.Text != "" {
		line += " text=" + p.Text
	}
	s.printf("%s updated=%s", line, s.at(p.Updated))
}

var callbackNames = [...]string{
	job.CallbackWaiting: "waiting", job.CallbackPushed: "pushed",
	job.CallbackAcked: "acked",
}

func (s *script) describeBatch(b *job.BatchInfo) string {
	var line strings.Builder
	fmt.Fprintf(&line, "batch %d", b.ID)
	if b.Text != "" {
		line.WriteString(" text=" + b.Text)
	}
	if b.Parent != 0 {
		fmt.Fprintf(&line, " parent=%d", b.Parent)
	}
	if b.Open {
		line.WriteString(" open")
	}
	fmt.Fprintf(&line, " total=%d pending=%d failed=%d", b.Total, b.Pending, b.Failed)
	if b.Children != 0 {
		fmt.Fprintf(&line, " children=%d", b.Children)
	}
	fmt.Fprintf(&line, " complete=%s success=%s created=%s", callbackNames[b.Complete],
		callbackNames[b.Success], s.at(b.Created))
	if b.ForgetAt.Sub(start) < 1e6*time.Hour { // else it is not worth telling
		line.WriteString(" forget=" + s.at(b.ForgetAt))
	}
	return line.String()
}

func showBatch(s *script, a *args) {
	ns, id := a.namespace(), a.batch()
	a.end()
	b, ok, err := s.query().Batch(ns, id)
	if err != nil {
		s.fatalf("batch: %v", err)
	}
	if !ok {
		s.printf("none")
		return
	}
	s.printf("%s", s.describeBatch(&b))
}

func showBatches(s *script, a *args) {
	ns, after, limit := a.namespace(), job.BatchID(a.number("after")), int(a.number("limit"))
	a.end()
	bs, err := s.query().Batches(ns, after, limit)
	if err != nil {
		s.fatalf("batches: %v", err)
	}
	ids := make([]string, len(bs))
	for i := range bs {
		ids[i] = fmt.Sprint(bs[i].ID)
	}
	s.printf("[%s]", strings.Join(ids, " "))
}

func showValue(s *script, a *args) {
	space, name := a.text("space"), a.text("name")
	a.end()
	v, ok, err := s.query().Value(space, name)
	if err != nil {
		s.fatalf("value: %v", err)
	}
	if !ok {
		s.printf("none")
		return
	}
	s.printf("%q", v)
}

func showValues(s *script, a *args) {
	space, after, limit := a.text("space"), a.text("after"), int(a.number("limit"))
	a.end()
	vs, err := s.query().Values(space, after, limit)
	if err != nil {
		s.fatalf("values: %v", err)
	}
	words := make([]string, len(vs))
	for i, v := range vs {
		words[i] = fmt.Sprintf("%s=%s", v.Name, v.Value)
	}
	s.printf("[%s]", strings.Join(words, " "))
}
