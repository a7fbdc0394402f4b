package tarantool

import (
	"errors"
	"strconv"
)

// statistics answers the counters of the tubes that have been used since the
// start: of one, of those of a space, or of all.
func (a *legacyAPI) statistics(c *call) {
	want, ok := legacyWanted(c)
	if !ok {
		c.raise(textInvalid)
		return
	}
	rows := a.stats.rows(want)
	c.settle()
	if err := a.fill(c, rows); err != nil {
		readFailed(c, err)
		return
	}
	n := 0
	for i := range rows {
		for k := range legacyShown {
			if rows[i].shows(k) {
				n += 2
			}
		}
	}
	r := c.begin()
	r.tuple(n)
	var name []byte
	for i := range rows {
		row := &rows[i]
		name = strconv.AppendUint(append(name[:0], "space"...), row.space, 10)
		name = append(append(append(name, '.'), row.name...), '.')
		for k, counter := range legacyShown {
			if row.shows(k) {
				r.text(append(name, counter...))
				r.text(strconv.AppendUint(nil, row.values[k], 10))
			}
		}
	}
	c.end(&r)
}

// legacyWanted reads which tubes are asked for.
func legacyWanted(c *call) (want func(legacyTube) bool, ok bool) {
	if c.args.At(0).IsNil() {
		return func(legacyTube) bool { return true }, true
	}
	space, ok := legacySpace(c.args.At(0))
	if !ok || c.args.At(1).IsNil() {
		return func(t legacyTube) bool { return t.space == space }, ok
	}
	name, ok := c.args.At(1).Bytes()
	return func(t legacyTube) bool { return t.space == space && t.name == string(name) }, ok
}

// fill reads what the engine knows about the tubes.
func (a *legacyAPI) fill(c *call, rows []legacyRow) error {
	v, err := a.engine.View()
	if err != nil {
		return err
	}
	for i := range rows {
		namespace := a.namespaceOf(c, rows[i].space)
		q, there, err := v.Queue(namespace, rows[i].name)
		if err != nil {
			return errors.Join(err, v.Close())
		}
		if there {
			base := a.stats.base[legacyQueue{namespace, rows[i].name}]
			rows[i].fill(&q, &base)
		}
	}
	return v.Close()
}
