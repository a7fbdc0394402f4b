package legacy

import (
	"strconv"

	"millrace/internal/dialect/tarantool/proc"
	"millrace/internal/engine"
)

// statistics answers the counters of the tubes that have been used since the
// start: of one, of those of a space, or of all.
func (a *API) statistics(c *proc.Call) {
	want, ok := wanted(c)
	if !ok {
		c.Raise(proc.TextInvalid)
		return
	}
	c.Settle()
	defer c.Conn.TakeAlone()()
	rows := a.stats.rows(want)
	if err := a.fill(c, rows); err != nil {
		readFailed(c, err)
		return
	}
	n := 0
	for i := range rows {
		for k := range shown {
			if rows[i].shows(k) {
				n += 2
			}
		}
	}
	r := c.Begin()
	r.Tuple(n)
	var name []byte
	for i := range rows {
		row := &rows[i]
		name = strconv.AppendUint(append(name[:0], "space"...), row.space, 10)
		name = append(append(append(name, '.'), row.name...), '.')
		for k, counter := range shown {
			if row.shows(k) {
				r.Text(append(name, counter...))
				r.Text(strconv.AppendUint(nil, row.values[k], 10))
			}
		}
	}
	c.End(&r)
}

// wanted reads which tubes are asked for.
func wanted(c *proc.Call) (want func(tubeName) bool, ok bool) {
	if c.Args.At(0).IsNil() {
		return func(tubeName) bool { return true }, true
	}
	space, ok := readSpace(c.Args.At(0))
	if !ok || c.Args.At(1).IsNil() {
		return func(t tubeName) bool { return t.space == space }, ok
	}
	name, ok := c.Args.At(1).Bytes()
	return func(t tubeName) bool { return t.space == space && t.name == string(name) }, ok
}

// fill reads what the engine knows about the tubes.
func (a *API) fill(c *proc.Call, rows []statsRow) error {
	return a.engine.Read(func(v *engine.View) error {
		for i := range rows {
			namespace := a.namespaceOf(c, rows[i].space)
			q, there, err := v.Queue(namespace, rows[i].name)
			if err != nil {
				return err
			}
			if there {
				base := a.stats.base[queueName{namespace, rows[i].name}]
				rows[i].fill(&q, &base)
			}
		}
		return nil
	})
}
