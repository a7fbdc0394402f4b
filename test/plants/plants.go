package main

// plant is a bug: a text in a file, and what to put in its place.
type plant struct {
	name string
	file string
	old  string
	new  string
}

const machine = "internal/engine/machine/"

var plants = []plant{
	{
		"a commit is not synced",
		"internal/engine/commit.go",
		"e.opt.Store.Commit(c.batch, e.opt.Durability == DurabilityFsync)",
		"e.opt.Store.Commit(c.batch, false)",
	},
	{
		"an answer leaves one step before its commit",
		"internal/engine/apply.go",
		"	case needs <= e.durable:\n",
		"	case needs <= e.durable+1:\n",
	},
	{
		"an ack is answered before it is on disk",
		"internal/engine/apply.go",
		"func (e *Engine) answerCommitted(r *Request) {\n",
		"func (e *Engine) answerCommitted(r *Request) {\n" +
			"	if len(r.Commands) == 1 {\n		if _, ok := r.Commands[0].(*job.Ack); ok {\n			e.answerNow(r)\n			return\n		}\n	}\n",
	},
	{
		"a reservation is told before it is on disk",
		machine + "fetch.go",
		"	if c.Firm {\n",
		"	if c.Firm && c.Max > 1 {\n",
	},
	{
		"a reservation is told to one who waited before it is on disk",
		machine + "wait.go",
		"	needs := m.lease(e, w.fetch, &res)\n",
		"	needs := m.lease(e, w.fetch, &res)\n	needs = min(needs, e.born)\n",
	},
	{
		"an answer needs the step before its own",
		machine + "machine.go",
		"	answered, needs = true, m.step\n",
		"	answered, needs = true, m.step-1\n",
	},
	{
		"now and then a wake-up is dropped",
		machine + "wait.go",
		"	if !q.waking && !q.waiters.empty() {\n",
		"	if !q.waking && !q.waiters.empty() && m.now%8 != 0 {\n",
	},
	{
		"a restart forgets all leases",
		machine + "holder.go",
		"lo, hi := record.BoundLeases(q.ID)",
		"lo, hi := record.ListStart(nil, q.ID, record.ListLeased), record.ListEnd(nil, q.ID, record.ListLeased)",
	},
	{
		"a restart puts released jobs last",
		machine + "holder.go",
		"			m.count(q, job.CountRestarted)\n			m.leave(e)\n			m.makeReady(e, job.PlaceOld)\n",
		"			m.count(q, job.CountRestarted)\n			m.leave(e)\n			m.makeReady(e, job.PlaceTail)\n",
	},
	{
		"one attempt more than allowed",
		machine + "settle.go",
		"	case p.MaxAttempts > 0 && e.Attempts >= p.MaxAttempts:\n",
		"	case p.MaxAttempts > 0 && e.Attempts > p.MaxAttempts:\n",
	},
	{
		"a new job overtakes those that are not in memory",
		machine + "window.go",
		"return w.whole || (w.len() > 0 && e.Order.Before(w.last().Order))",
		"return w.whole || w.len() > 0",
	},
	{
		"a refilled list is taken for whole",
		machine + "ready.go",
		"	w.whole = len(ids) < limit\n	w.floor = nil\n",
		"	w.whole = true\n	w.floor = nil\n",
	},
	{
		"a callback is pushed and the batch does not know",
		machine + "batch.go",
		"		b.Complete = job.CallbackPushed\n		m.putBatch(b)\n",
		"		b.Complete = job.CallbackPushed\n",
	},
	{
		"a lock outlives the ack",
		machine + "settle.go",
		"	if e.Lock != \"\" && e.LockUntil == job.LockUntilAck {\n",
		"	if e.Lock != \"\" && e.LockUntil == job.LockUntilAck && e.Attempts > 1 {\n",
	},
	{
		"a key is remembered and not written",
		machine + "keys.go",
		"	m.vb = record.AppendKeyRef(m.vb[:0], r)\n	m.set(m.kb, m.vb)\n",
		"	m.vb = record.AppendKeyRef(m.vb[:0], r)\n	if r.More {\n		m.set(m.kb, m.vb)\n	}\n",
	},
	{
		"a dependant does not wait for its last blocker",
		machine + "depend.go",
		"		if len(d.Blockers) > 0 {\n			m.save(d)\n",
		"		if len(d.Blockers) > 1 {\n			m.save(d)\n",
	},
}
