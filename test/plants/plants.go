package main

// plant is a bug: a text in a file, and what to put in its place.
type plant struct {
	name string
	file string
	old  string
	new  string
}

const (
	machine = "internal/engine/machine/"
	journal = "internal/store/pebblestore/journal.go"
	recent  = "internal/store/pebblestore/recent.go"
)

var plants = []plant{
	{
		"a commit is not synced",
		"internal/engine/commit.go",
		"e.opt.Store.Commit(c.batch, e.opt.Durability == DurabilityFsync)",
		"store.CommitNow(e.opt.Store, c.batch)",
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
		machine + "serve.go",
		"	if !q.waking && !q.waiters.empty() {\n",
		"	if !q.waking && !q.waiters.empty() && m.now%8 != 0 {\n",
	},
	{
		"a restart forgets all leases",
		machine + "restart.go",
		"lo, hi := record.BoundLeases(q.ID)",
		"lo, hi := record.ListStart(nil, q.ID, record.ListLeased), record.ListEnd(nil, q.ID, record.ListLeased)",
	},
	{
		"a restart puts released jobs last",
		machine + "restart.go",
		"		m.count(q, job.CountRestarted)\n		m.leave(e)\n		m.makeReady(e, job.PlaceOld)\n",
		"		m.count(q, job.CountRestarted)\n		m.leave(e)\n		m.makeReady(e, job.PlaceTail)\n",
	},
	{
		"a restart takes leases back that are newer than itself",
		machine + "restart.go",
		"		if e.Entered >= m.restart.seq {",
		"		if e.Entered > m.restart.seq+1 {",
	},
	{
		"a dependant is skipped where an ending goes on",
		machine + "depend.go",
		"			x.Next = ref\n			m.follow = 0\n",
		"			x.Next = ref\n			x.Next.ID++\n			m.follow = 0\n",
	},
	{
		"dependants that are left over are forgotten by a restart",
		machine + "machine.go",
		"	m.endingsLeft = m.some(record.EndingSpan(0, math.MaxUint64))\n",
		"	m.endingsLeft = false\n",
	},
	{
		"the second end of a job overtakes what the first has left over",
		machine + "depend.go",
		"		if x.seq == 0 && m.endingLeft(x.id) {\n",
		"		if x.seq == 0 && false {\n",
	},
	{
		"the end of a holder ends a newer lease",
		machine + "holder.go",
		"		if e == nil || e.State != job.Leased || e.Entered != l.entered {\n			continue // settled",
		"		if e == nil || e.State != job.Leased {\n			continue // settled",
	},
	{
		"a flush removes what was pushed after it began",
		machine + "queue.go",
		"	if m.flush != nil && q.ID != 0 {\n",
		"	if m.flush != nil && q.ID < 0 {\n",
	},
	{
		"a flush is forgotten by a restart",
		machine + "machine.go",
		"	m.loadFlush()\n",
		"",
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
		"	if len(d.Blockers) > 0 {\n		m.save(d)\n",
		"	if len(d.Blockers) > 1 {\n		m.save(d)\n",
	},
	{
		"the journal is not synced",
		journal,
		"	return f.SyncData()\n",
		"	return nil\n",
	},
	{
		"an asynchronous write of the journal is not synced",
		"internal/store/pebblestore/direct_linux.go",
		"		rwFlags: unix.RWF_DSYNC,\n",
		"		rwFlags: unix.RWF_DSYNC &^ unix.RWF_DSYNC,\n",
	},
	{
		"records are released before Pebble has synced them",
		recent,
		"	if opts.Sync {\n		r.journal.released.Store(",
		"	if opts != nil {\n		r.journal.released.Store(",
	},
	{
		"the marker of the journal is not written",
		recent,
		"	err := s.apply(&g.Batch, opts, m)\n",
		"	err := s.apply(&g.Batch, opts, r.marker)\n",
	},
	{
		"the marker of the journal is one too high",
		recent,
		"	m := marker{applied: g.last, ",
		"	m := marker{applied: g.last + 1, ",
	},
	{
		"what was gathered is forgotten instead of applied",
		recent,
		"	err := s.apply(&g.Batch, opts, m)\n",
		"	err := s.apply(&store.Batch{}, opts, m)\n",
	},
	{
		"a removal does not meet what was inserted before it",
		"internal/store/overlay.go",
		"	o.index(sp)\n	s := o.take(key)\n",
		"	s := o.take(key)\n",
	},
	{
		"a push overwrites the body of a job that was delivered",
		machine + "fetch.go",
		"	m.dropBody(e)\n",
		"",
	},
	{
		"what is being applied is not read meanwhile",
		recent,
		"	return r.moving\n}",
		"	g := r.moving\n	r.moving = nil\n	return g\n}",
	},
	{
		"a get reads what is older first",
		recent,
		"[]*generation{r.open, r.moving}",
		"[]*generation{r.moving, r.open}",
	},
	{
		"a scan takes what is older for newer",
		recent,
		"store.LayerOf(rg, below, &open.Overlay)",
		"store.LayerOf(rg, &open.Overlay, below)",
	},
	{
		"the journal writes over the file that it is in",
		journal,
		"		j.turn, j.end = 1-j.turn, 0\n",
		"		j.end = 0\n",
	},
	{
		"the other file of the journal is written over too early",
		journal,
		" && j.files[1-j.turn].last <= j.released.Load() {",
		" {",
	},
	{
		"nobody looks behind a broken record of the journal",
		journal,
		"		if _, _, ok := recordAt(r.data[at:], r.secret); ok {\n",
		"		if _, _, ok := recordAt(r.data[at:], r.secret); ok && at < 0 {\n",
	},
	{
		"a gap in the journal is not told",
		journal,
		"	if r.first > next {\n",
		"	if r.first > next && r.last == 0 {\n",
	},
	{
		"a client may know the secret of the journal",
		recent,
		"	return marker{secret: binary.BigEndian.Uint64(b[:])}, nil\n",
		"	return marker{}, nil\n",
	},
	{
		"a batch that passes the journal by takes no number of it",
		recent,
		"		m.applied, m.sizes = r.journal.next, r.journal.sizes()\n",
		"		m.applied, m.sizes = r.marker.applied, r.journal.sizes()\n",
	},
	{
		"a log is copied while it is written",
		"internal/store/pebblestore/open.go",
		"files: s.files, beforeLog: s.holdLog}",
		"files: s.files}",
	},
}
