package faktory

import (
	"errors"

	"millrace/internal/dialect/jsonscan"
	"millrace/internal/engine"
	"millrace/internal/job"
)

// mutation is the argument of MUTATE.
type mutation struct {
	cmd, target []byte
	jids        []byte // the text of the list; nil if it is empty or missing
	pattern     []byte
	jobtype     []byte
}

// parseMutation reads the argument of MUTATE. It returns what is wrong with it.
func parseMutation(arg []byte) (m mutation, text string) {
	if len(arg) == 0 {
		return m, textFormat
	}
	r := jsonscan.ReadObject(arg)
	for key, value, ok := r.Next(); ok; key, value, ok = r.Next() {
		good := true
		name := member(key)
		switch string(name) {
		case "cmd":
			m.cmd, good = parseString(value)
		case "target":
			m.target, good = parseString(value)
		case "filter":
			good = m.parseFilter(value)
		}
		if !good {
			return m, textJSON + "wrong type of " + echo(name)
		}
	}
	if r.Err() != nil {
		return m, textJSON + textNotObject
	}
	if len(m.pattern) > globMax {
		return m, textMutatePattern
	}
	return m, ""
}

func (m *mutation) parseFilter(filter []byte) bool {
	m.jids, m.pattern, m.jobtype = nil, nil, nil
	r := jsonscan.ReadObject(filter)
	for key, value, ok := r.Next(); ok; key, value, ok = r.Next() {
		good := true
		switch string(member(key)) {
		case "jids":
			m.jids, good = parseList(value)
		case "regexp":
			m.pattern, good = parseString(value)
		case "jobtype":
			m.jobtype, good = parseString(value)
		}
		if !good {
			return false
		}
	}
	return r.Err() == nil
}

// parseList checks that a text is a list of strings and returns it; nil if it is empty.
func parseList(value []byte) (list []byte, ok bool) {
	r := jsonscan.ReadArray(value)
	for _, text, more := r.Next(); more; _, text, more = r.Next() {
		if text[0] != '"' {
			return nil, false
		}
		list = value
	}
	return list, r.Err() == nil
}

// all reports whether there is no filter.
func (m *mutation) all() bool { return m.jids == nil && len(m.pattern) == 0 && len(m.jobtype) == 0 }

// mutator does to single jobs what a MUTATE says.
type mutator struct {
	mutation
	state job.State
	build func(ref job.Ref) job.Command
}

// targets are the sets that MUTATE knows.
var targets = map[string]job.State{"scheduled": job.Scheduled, "retries": job.Retrying, "dead": job.Dead}

// newMutator returns the mutator for a MUTATE, or what is wrong with it.
func newMutator(m mutation) (mu *mutator, text string) {
	state, known := targets[string(m.target)]
	in := job.StatesOf(state)
	mu = &mutator{mutation: m, state: state}
	switch string(m.cmd) {
	case "clear", "discard":
		mu.build = func(ref job.Ref) job.Command { return &job.Delete{Ref: ref, In: in, Need: job.NeedAny} }
	case "kill":
		mu.build = func(ref job.Ref) job.Command { return &job.Kill{Ref: ref, In: in, For: deadFor} }
	case "requeue":
		mu.build = func(ref job.Ref) job.Command { return &job.Promote{Ref: ref, In: in, Place: job.PlaceTail} }
	default:
		return nil, textMutateCommand
	}
	if !known {
		return nil, textMutateTarget
	}
	return mu, ""
}

// runMutate answers MUTATE (protocol section 4). It looks through lists in bounded
// pieces. What it does to a job is one command that applies only as long as the job is
// in the set, so a crash or somebody else can come between any two jobs, but not into
// one.
func (c *conn) runMutate() {
	m, text := parseMutation(c.arg)
	var mu *mutator
	if text == "" {
		mu, text = newMutator(m)
	}
	if text != "" {
		c.fail(text)
		return
	}
	p := &pieces{c: c}
	var err error
	switch cmd := string(m.cmd); {
	case cmd == "kill" && mu.state == job.Dead: // they are
	case cmd == "clear", cmd == "discard" && m.all():
		err = c.purge(p, mu.state)
	case m.jids != nil:
		c.mutateNamed(p, mu)
	default:
		err = c.mutateListed(p, mu)
	}
	if err != nil {
		c.readFailed(err)
		return
	}
	c.finish(p)
}

// purge empties a set.
func (c *conn) purge(p *pieces, state job.State) error {
	return c.eachName(populated(state), func(name string, jobs uint64) bool {
		p.addHeavy(&job.Purge{Namespace: c.d.opts.Namespace, Queue: name, State: state}, jobs)
		return p.err == nil
	})
}

// populated wants the queues that have jobs in a state, hidden ones included.
func populated(state job.State) func(*job.QueueInfo) (uint64, bool) {
	return func(q *job.QueueInfo) (uint64, bool) { return q.Counts[state], q.Counts[state] > 0 }
}

// fewJobs is how many jobs of a jid are looked at together with those of others. Hardly ever there is more than one.
const fewJobs = 16

// mutateNamed does it to the jobs of some jids, by their keys. Several jobs may have one jid: of those that have very
// many the rest is done step by step. No job is met twice, although what was requeued may have failed meanwhile,
// because each step goes on behind the last.
func (c *conn) mutateNamed(p *pieces, mu *mutator) {
	var rest []*job.Each
	p.done = func(cmd job.Command, res *job.Result) {
		if each, ok := cmd.(*job.Each); ok && res.Err == nil && res.ID != 0 {
			rest = append(rest, &job.Each{Namespace: each.Namespace, Key: each.Key, After: res.ID, Do: each.Do})
		}
	}
	do := mu.build(job.Ref{})
	r := jsonscan.ReadArray(mu.jids)
	for _, text, ok := r.Next(); ok && p.err == nil; _, text, ok = r.Next() {
		jid, _ := parseString(text)
		ref := c.ref(jid)
		if ref.Kind != job.RefKey {
			p.add(mu.build(ref))
			continue
		}
		each := p.spare.Get()
		*each = job.Each{Namespace: ref.Namespace, Key: ref.Key, Limit: fewJobs, Do: do}
		p.addHeavy(each, fewJobs)
		p.finish(&rest)
	}
	p.flush()
	p.finish(&rest)
}

// finish submits commands that go on until there are none, each by itself.
func (p *pieces) finish(rest *[]*job.Each) {
	for len(*rest) > 0 && p.err == nil {
		next := (*rest)[len(*rest)-1]
		*rest = (*rest)[:len(*rest)-1]
		p.addHeavy(next, pieceHeavy)
		p.flush()
	}
}

// mutateListed does it to the jobs of the set that match the filter, page by page.
func (c *conn) mutateListed(p *pieces, mu *mutator) (err error) {
	began := c.d.opts.Engine.Now()
	lerr := c.eachName(populated(mu.state), func(name string, _ uint64) bool {
		for cursor, more := "", true; more && err == nil && p.err == nil; more = cursor != "" {
			var ids []job.ID
			ids, cursor, err = c.matching(mu, name, cursor, began)
			for _, id := range ids {
				p.add(mu.build(job.ByID(c.d.opts.Namespace, name, id)))
			}
			p.flush() // before the next view: it must not show again what has gone
		}
		return err == nil && p.err == nil
	})
	return errors.Join(err, lerr)
}

// matching returns the jobs of one page of a list that match. Those that have come after
// the command began are not meant: what is requeued may fail again, for ever.
func (c *conn) matching(mu *mutator, queue, after string, began job.Time) (ids []job.ID, next string, err error) {
	err = c.d.opts.Engine.Read(func(v *engine.View) error {
		page, err := v.List(engine.ListOptions{
			Namespace: c.d.opts.Namespace, Queue: queue, State: mu.state, After: after, Limit: pieceMax,
		})
		if err != nil {
			return notThere(err) // the queue was removed meanwhile
		}
		next = page.Next
		for i := range page.Jobs {
			j := &page.Jobs[i]
			if j.Since > began || j.Flags.Has(job.FlagTombstone) {
				continue
			}
			ok, err := mu.matches(v, j)
			if err != nil {
				return err
			}
			if ok {
				ids = append(ids, j.ID)
			}
		}
		return nil
	})
	return ids, next, err
}

// matches reports whether the filter lets a listed job pass.
func (mu *mutator) matches(v *engine.View, listed *job.Job) (bool, error) {
	if mu.all() {
		return true, nil
	}
	// Bodies are read one by one: a page could have a hundred of a megabyte each.
	j, err := v.Get(job.ByID(listed.Namespace, listed.Queue, listed.ID))
	if err != nil {
		return false, notThere(err)
	}
	if len(mu.jobtype) > 0 && string(mu.jobtype) != j.Type {
		return false, nil
	}
	return len(mu.pattern) == 0 || glob(mu.pattern, appendJob(nil, &j)), nil
}

// notThere drops the error that something is not there.
func notThere(err error) error {
	if refused, ok := errors.AsType[*job.Error](err); ok && refused.Kind == job.NotFound {
		return nil
	}
	return err
}
