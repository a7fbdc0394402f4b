package tarantool

import (
	"bytes"
	"errors"

	"millrace/internal/engine"
	"millrace/internal/job"
)

// legacyPutUnique puts a task unless one with the same first field of data is
// there that has the status which the new one would have.
func (c *call) legacyPutUnique() {
	cmd := c.newPush()
	if !c.legacySpec(&cmd.Spec) {
		return
	}
	if cmd.Spec.BodyKind == job.BodyNone {
		c.raise(legacyTextNoData)
		return
	}
	state := job.Ready
	if cmd.Spec.Delay > 0 {
		state = job.Scheduled
	}
	// What others put meanwhile may be the same; what is put by this procedure not.
	unique := &c.conn.d.legacy.unique
	unique.Lock()
	defer unique.Unlock()
	c.settle()
	j, found, err := c.legacyTwin(&cmd.Spec, state)
	switch {
	case err != nil:
		c.legacyReadFailed(err)
	case found:
		c.legacyTask(&j, legacyStatus(state))
	default:
		legacyPutDone(c, &c.do(cmd)[0])
	}
}

// legacyPage is how many jobs are read at once.
const legacyPage = 256

// legacyTwin finds the first task of a state that has the same first field of data.
func (c *call) legacyTwin(s *job.Spec, state job.State) (j job.Job, found bool, err error) {
	v, err := c.engine().View()
	if err != nil {
		return j, false, err
	}
	defer func() { err = errors.Join(err, v.Close()) }()
	want := c.args.at(legacyPutData)
	o := engine.ListOptions{Namespace: s.Namespace, Queue: s.Queue, State: state, Limit: legacyPage, Bodies: true}
	for {
		page, err := v.List(o)
		if isNotFound(err) {
			return j, false, nil // the tube has not been used yet
		}
		if err != nil {
			return j, false, err
		}
		for i := range page.Jobs {
			if j := &page.Jobs[i]; legacyFieldCount(j) > 0 && legacySame(legacyFirst(j), want) {
				return *j, true, nil
			}
		}
		if o.After = page.Next; o.After == "" {
			return j, false, nil
		}
	}
}

// legacyFirst returns the first field of the data of a job that has any.
func legacyFirst(j *job.Job) value {
	if j.BodyKind != job.BodyMsgpack {
		return appendBody(nil, j)
	}
	first, _ := cut(j.Body)
	return first
}

// legacySame reports whether two fields are the same: strings by their content,
// however they were sent, others as they were sent.
func legacySame(a, b value) bool {
	x, okA := a.bytes()
	y, okB := b.bytes()
	if okA && okB {
		return bytes.Equal(x, y)
	}
	return okA == okB && bytes.Equal(a, b)
}
