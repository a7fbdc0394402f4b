package machine

import (
	"bytes"

	"millrace/internal/record"
)

// checkGroups asserts that the record of each group says how many of its jobs are leased, and that the list of firsts
// to which it belongs has its first ready job, unless limits hold the group (INV-4, INV-21). Of the ready jobs with a
// group each has been found under it.
func (c *checker) checkGroups(q *queue, grouped int) error {
	running, err := c.checkRunning(q)
	if err != nil {
		return err
	}
	shown := map[record.List]int{}
	n, turns := 0, map[uint64]bool{}
	var group []byte // what all entries of the group begin with
	c.eachEntry(q, record.ListPerGroup, func(key []byte) bool {
		n++
		// Only the first job of a group is shown; the others are counted.
		if group != nil && bytes.HasPrefix(key, group) {
			return true
		}
		e := c.loadJob(q, record.EntryID(key))
		if e == nil || !bytes.Equal(key, record.ListKey(nil, q.ID, record.ListPerGroup, &e.Job)) {
			err = broken(1, "entry %x by group is not that of a job", key)
			return false
		}
		group, _ = record.GroupSpan(q.ID, e.Group)
		err = c.checkFirst(q, e, running[e.Group], shown, turns)
		return err == nil
	})
	if err != nil {
		return err
	}
	if n != grouped {
		return broken(1, "%d entries by group for %d jobs", n, grouped)
	}
	for _, list := range []record.List{record.ListFirst, record.ListTurn} {
		if n := c.length(q, list); n != shown[list] {
			return broken(4, "list %d has %d entries for %d groups that are not held", list, n, shown[list])
		}
	}
	return c.checkUngroupedTurn(q)
}

// checkFirst asserts that the first job of a group is where its group's record says. While the
// queue is being regrouped its groups may be held by the old rule.
func (c *checker) checkFirst(
	q *queue, e *entry, running uint32, shown map[record.List]int, turns map[uint64]bool,
) error {
	g := c.storedGroup(q, e.Group)
	if g.Turn != 0 && turns[g.Turn] {
		return broken(21, "two groups have the turn %d", g.Turn)
	}
	turns[g.Turn] = true
	if full := running >= q.groupMax(); !q.isRegrouping() && (full && !g.Held || !full && g.Held && g.RecheckAt == 0) {
		return broken(4, "group %q has %d leased jobs, and it is held: %v", e.Group, running, g.Held)
	}
	if g.Held {
		return nil
	}
	list, key := record.ListFirst, record.ListKey(nil, q.ID, record.ListFirst, &e.Job)
	if g.Turn != 0 {
		list, key = record.ListTurn, record.TurnKey(nil, q.ID, e.Order.Priority, g.Turn, e.ID)
	}
	if _, _, ok := c.store.Get(nil, key); !ok {
		return broken(4, "list %d does not name job %d, the first of its group", list, e.ID)
	}
	shown[list]++
	return nil
}

// checkRunning counts the leased jobs of each group, and asserts that the records of groups say the same and nothing
// that is not needed.
func (c *checker) checkRunning(q *queue) (running map[string]uint32, err error) {
	running = map[string]uint32{}
	c.eachEntry(q, record.ListLeased, func(key []byte) bool {
		if e := c.mustLoad(q, record.EntryID(key)); e.Group != "" {
			running[e.Group]++
		}
		return true
	})
	looks, leased := 0, 0
	c.store.Scan(record.GroupKey(nil, q.ID, ""), record.GroupKey(nil, q.ID+1, ""), false, func(key, value []byte) bool {
		name := record.ParseGroupKey(key)
		g, derr := record.DecodeGroup(value)
		corrupt("group", derr)
		g = q.currentGroup(g)
		// Whether the group has a ready job at all.
		empty := !c.hasKeyIn(record.GroupSpan(q.ID, name))
		switch {
		case value[0] == 0 && c.format < record.FormatFair:
			err = broken(20, "group %q has a record of a later format than %d", name, c.format)
		case g.Running != running[name]:
			err = broken(4, "group %q has %d leased jobs, and its record says %d", name, running[name], g.Running)
		case g == record.Group{} && q.regroupFrom == nil:
			err = broken(12, "group %q has a record that says nothing", name)
		case g.Turn != 0 && empty:
			err = broken(21, "group %q has a turn and no ready job", name)
		case g.RecheckAt != 0 && !c.has(record.RecheckKey(nil, q.ID, g.RecheckAt, name)):
			err = broken(18, "nobody looks at the rate of group %q", name)
		}
		// Each group that has used some of its rate has one entry in the list of times, and nothing
		// else is in it.
		if g.RecheckAt != 0 {
			looks++
		}
		if g.Running > 0 {
			leased++
		}
		return err == nil
	})
	if err == nil && leased != len(running) {
		err = broken(4, "%d groups have leased jobs, and %d records say so", len(running), leased)
	}
	if n := c.length(q, record.ListRecheck); err == nil && n != looks {
		err = broken(18, "the rates of %d groups are to be looked at, and %d have used some", n, looks)
	}
	return running, err
}

// checkUngroupedTurn asserts that the jobs without a group have a turn only if there are some.
func (c *checker) checkUngroupedTurn(q *queue) error {
	if q.Turn != 0 && c.length(q, record.ListReady) == 0 {
		return broken(21, "jobs without a group have a turn, and there is none")
	}
	if (q.Turn != 0 || q.Fairness.On) && !q.Turns {
		return broken(21, "groups have turns, and the queue does not know")
	}
	return nil
}

func (c *checker) has(key []byte) bool {
	_, _, ok := c.store.Get(nil, key)
	return ok
}

// storedGroup returns the record of a group; zero if it has none.
func (c *checker) storedGroup(q *queue, name string) (g record.Group) {
	if b, _, ok := c.store.Get(nil, record.GroupKey(nil, q.ID, name)); ok {
		var err error
		g, err = record.DecodeGroup(b)
		corrupt("group", err)
	}
	return q.currentGroup(g)
}
