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
	filelog = "internal/commitlog/filelog/"
	pebbles = "internal/store/pebblestore/"
	replica = "internal/replica/"
	raftlog = "internal/raftlog/"
)

var plants = []plant{
	{
		"an ack is answered before it is on disk",
		"internal/engine/apply.go",
		"func (e *Engine) answerCommitted(r *Request) {\n",
		"func (e *Engine) answerCommitted(r *Request) {\n" +
			"	if len(r.Commands) == 1 {\n		if _, ok := r.Commands[0].(*job.Ack); ok {\n			e.completeNow(r)\n			return\n		}\n	}\n",
	},
	{
		"a reservation is told before it is on disk",
		machine + "fetch.go",
		"	if c.Firm || q.limit != nil {",
		"	if c.Firm && c.Max > 1 {",
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
		"	m.endingsLeft = m.hasKeyIn(record.EndingSpan(0, math.MaxUint64))\n",
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
		"a slot is lost when a lease expires",
		machine + "limit.go",
		"	if s := e.q.limit.slots[e.ID]; s != nil {\n",
		"	if s := e.q.limit.slots[e.ID]; s != nil && e.Lapses == 0 {\n",
	},
	{
		"a limit is forgotten at a restart",
		machine + "queue.go",
		"		m.armPause(q)\n	}\n	m.limit(q)\n",
		"		m.armPause(q)\n	}\n",
	},
	{
		"who waits while leases are counted is not served",
		machine + "limit.go",
		"			l.next = nil\n			m.wake(q)\n",
		"			l.next = nil\n",
	},
	{
		"a group is starved",
		machine + "turn.go",
		"	default:\n		*turn, *credit = m.nextSeq(), q.Fairness.Weight(group)\n",
		"	default:\n		*credit = q.Fairness.Weight(group)\n",
	},
	{
		"the slot of a group is lost when a lease expires",
		machine + "group.go",
		"	g.Running--\n",
		"	if e.Lapses == 0 {\n		g.Running--\n	}\n",
	},
	{
		"who waits for the rate of a group is not woken",
		machine + "ready.go",
		"			m.rouse(q, q.limit.look)\n",
		"			_ = q.limit.look\n",
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
		"return w.whole || (w.len() > 0 && w.before(e, w.last()))",
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
		"an answer leaves one step before its commit",
		"internal/engine/apply.go",
		"	if needs <= e.durable {\n		e.completeNow(r)\n",
		"	if needs <= e.durable+1 {\n		e.completeNow(r)\n",
	},
	{
		"the job of a hook is lost at a crash: it is pushed with the next one",
		machine + "serve.go",
		"		case len(m.notices) > 0 && !m.inside:\n",
		"		case len(m.notices) > 1 && !m.inside:\n",
	},
	{
		"hooks are forgotten at a restart",
		machine + "machine.go",
		"	m.loadHooks()\n",
		"",
	},
	{
		"a hook fires for what a hook has pushed",
		machine + "hook.go",
		"e.Flags&(job.FlagHook|job.FlagEphemeral) != 0 {\n",
		"e.Flags&job.FlagEphemeral != 0 {\n",
	},
	{
		"a tick is fired twice after a crash",
		machine + "schedule.go",
		"	m.tickAt(s, nextTick(next, ok))\n",
		"	m.tickAt(s, min(nextTick(next, ok), m.now.Add(time.Second)))\n",
	},
	{
		"answers leave before their batch has landed",
		"internal/engine/commit.go",
		"	c.begun = e.Now()\n",
		"	c.begun = e.Now()\n" +
			"	for _, r := range c.replies.reqs {\n" +
			"		r.Done(r)\n" +
			"	}\n" +
			"	clear(c.replies.reqs)\n" +
			"	c.replies.reqs = c.replies.reqs[:0]\n",
	},
	{
		"a batch that has landed vouches for those behind it",
		"internal/engine/commit.go",
		"	e.durable = c.step\n",
		"	e.durable = max(c.step, e.sealed())\n",
	},
	{
		"an answer leaves with an earlier batch than the one it tells of",
		"internal/engine/apply.go",
		"		if needs <= c.step {\n			c.late",
		"		if needs <= c.step || len(e.flights) > 1 {\n			c.late",
	},
	{
		"the batch that has landed is taken for the newest",
		"internal/engine/commit.go",
		"	e.flights = slices.Delete(e.flights, 0, 1)\n",
		"	e.flights = slices.Delete(e.flights, len(e.flights)-1, len(e.flights))\n",
	},
	{
		"a record of the log is not synced",
		filelog + "log.go",
		"	if l.o.Mode == commitlog.Fsync {\n		err = l.writeSynced(l.file, blocks, start)\n",
		"	if l.o.Mode > commitlog.None {\n		err = l.writeSynced(l.file, blocks, start)\n",
	},
	{
		"the store ignores the mode of the log",
		pebbles + "open.go",
		"Mode: o.Mode,",
		"Mode: commitlog.None,",
	},
	{
		"the log is not synced after the interval",
		filelog + "log.go",
		"	case commitlog.Interval:\n		l.syncLater()\n",
		"	case commitlog.Interval:\n",
	},
	{
		"a segment is left before it is synced",
		filelog + "log.go",
		"	if err := l.Sync(); err != nil {\n" +
			"		return err\n" +
			"	}\n" +
			"	s, f, err := l.begin(",
		"	s, f, err := l.begin(",
	},
	{
		"the end of a segment is not marked",
		filelog + "log.go",
		"	err = l.write(record{number: l.written.Load() + 1, kind: kindEnd})\n	if err == nil && l.o.Mode",
		"	if err == nil && l.o.Mode",
	},
	{
		"all segments have the same salt",
		filelog + "log.go",
		"salt: NewID()}",
		"salt: l.o.ID}",
	},
	{
		"a segment too many is trimmed",
		filelog + "log.go",
		"	for len(l.used) > 1 && l.used[1].first-1 <= number {\n",
		"	for n := 0; len(l.used) > 1 && (l.used[1].first-1 <= number || n == 0 && l.used[0].first <= number); n++ {\n",
	},
	{
		"nobody looks behind a broken record of the log",
		filelog + "segment.go",
		"		if r, ok := recordAt(t.data[at:], s.salt); ok {\n			synced",
		"		if r, ok := recordAt(t.data[at:], s.salt); ok && at < 0 {\n			synced",
	},
	{
		"a segment that is missing is not told",
		filelog + "segment.go",
		"		case t.ended:\n",
		"		case t.ended && t.last < from:\n",
	},
	{
		"a log that ends too early is not told",
		filelog + "segment.go",
		"last >= from, t.last < safe:",
		"last >= from, t.last < safe && s.first > safe:",
	},
	{
		"the position is that of the batch before",
		pebbles + "apply.go",
		"		err = p.setIn(pb)\n",
		"		err = s.gathered.position.setIn(pb)\n",
	},
	{
		"the position goes to Pebble before the changes",
		pebbles + "apply.go",
		"	err := s.fill(pb, b)\n" +
			"	if err == nil {\n" +
			"		err = p.setIn(pb)\n" +
			"	}\n",
		"	first := s.db.NewBatch()\n" +
			"	err := p.setIn(first)\n" +
			"	if err == nil {\n" +
			"		err = s.db.Apply(first, pebble.NoSync)\n" +
			"	}\n" +
			"	if err == nil {\n" +
			"		err = s.fill(pb, b)\n" +
			"	}\n",
	},
	{
		"the position is one too high",
		pebbles + "gather.go",
		"	p := position{applied: gen.last, ",
		"	p := position{applied: gen.last + 1, ",
	},
	{
		"the position is one too low",
		pebbles + "gather.go",
		"	p := position{applied: gen.last, ",
		"	p := position{applied: gen.last - 1, ",
	},
	{
		"the log is trimmed by what Pebble has in memory",
		pebbles + "gather.go",
		"	p, there, err := readPosition(s.db, true)\n",
		"	p, there, err := readPosition(s.db, false)\n",
	},
	{
		"the last record that Pebble has is replayed again",
		pebbles + "open.go",
		"filelog.Open(s.logOptions(o, p), p.applied+1,",
		"filelog.Open(s.logOptions(o, p), max(p.applied, 1),",
	},
	{
		"what was gathered is forgotten instead of applied",
		pebbles + "gather.go",
		"	err := s.apply(&gen.Batch, p)\n",
		"	err := s.apply(&store.Batch{}, p)\n",
	},
	{
		"what is being applied is not read meanwhile",
		pebbles + "gather.go",
		"	return g.moving\n}",
		"	gen := g.moving\n" +
			"	g.moving = nil\n" +
			"	return gen\n" +
			"}",
	},
	{
		"a get reads what is older first",
		pebbles + "gather.go",
		"[]*generation{g.open, g.moving}",
		"[]*generation{g.moving, g.open}",
	},
	{
		"a scan takes what is older for newer",
		pebbles + "read.go",
		"store.LayerOf(rg, below, &open.Overlay)",
		"store.LayerOf(rg, &open.Overlay, below)",
	},
	{
		"a checkpoint is not flushed first",
		pebbles + "checkpoint.go",
		"		if err := s.flushTables(); err != nil {\n" +
			"			return err\n" +
			"		}\n" +
			"		p = s",
		"		p = s",
	},
	{
		"FORMAT is marked after the upgrade",
		pebbles + "upgrade.go",
		"	if !fresh && format < FormatVersion {\n" +
			"		if err := mark(s.fs, s.dir); err != nil {\n" +
			"			return p, unwritable(s.dir, err)\n" +
			"		}\n" +
			"	}\n" +
			"	if err := s.beginLog(o, p); err != nil {\n" +
			"		return p, err\n" +
			"	}\n" +
			"	gathered := s.gathered.open\n" +
			"	gathered.Delete(journalKey)\n" +
			"	s.gathered.open = &generation{}\n" +
			"	s.gathered.position = p\n" +
			"	if err := s.apply(&gathered.Batch, p); err != nil {\n" +
			"		return p, err\n" +
			"	}\n" +
			"	return p, s.flushTables()\n",
		"	if err := s.beginLog(o, p); err != nil {\n" +
			"		return p, err\n" +
			"	}\n" +
			"	gathered := s.gathered.open\n" +
			"	gathered.Delete(journalKey)\n" +
			"	s.gathered.open = &generation{}\n" +
			"	s.gathered.position = p\n" +
			"	if err := s.apply(&gathered.Batch, p); err != nil {\n" +
			"		return p, err\n" +
			"	}\n" +
			"	if err := s.flushTables(); err != nil {\n" +
			"		return p, err\n" +
			"	}\n" +
			"	if !fresh && format < FormatVersion {\n" +
			"		if err := mark(s.fs, s.dir); err != nil {\n" +
			"			return p, unwritable(s.dir, err)\n" +
			"		}\n" +
			"	}\n" +
			"	return p, nil\n",
	},
	{
		"an upgrade removes the journal before its content is in tables",
		pebbles + "upgrade.go",
		"	return p, s.flushTables()\n",
		"	return p, nil\n",
	},
	{
		"a leader applies a batch before it is committed",
		replica + "term.go",
		"	t.pending = append(t.pending, &proposal{t.seq, b, done})\n",
		"	t.pending = append(t.pending, &proposal{t.seq, b, done})\n" +
			"	_ = t.Store.Apply(b, t.replica.index, t.replica.state.encode())\n",
	},
	{
		"the number of a batch is not looked at",
		replica + "replica.go",
		"	if e.term != r.state.Term || e.seq != r.state.Seq+1 || ",
		"	if e.term != r.state.Term || ",
	},
	{
		"nothing is confirmed",
		"internal/engine/engine.go",
		"		e.proofs.confirm = c.Confirm\n",
		"		_ = c\n",
	},
	{
		"reads are not confirmed",
		"internal/engine/apply.go",
		"	if e.proofs.confirm != nil && needs <= e.sealed() {\n",
		"	if e.proofs.confirm != nil && needs <= e.sealed() && !r.flush {\n",
	},
	{
		"refusals are not confirmed",
		"internal/engine/apply.go",
		"	if e.proofs.confirm != nil && needs <= e.sealed() {\n",
		"	if e.proofs.confirm != nil && needs <= e.sealed() && (len(r.Results) == 0 || r.Results[0].Err == nil) {\n",
	},
	{
		"deliveries are not confirmed",
		"internal/engine/apply.go",
		"	if e.proofs.confirm != nil && needs <= e.sealed() {\n",
		"	if e.proofs.confirm != nil && needs <= e.sealed() && (len(r.Results) == 0 || len(r.Results[0].Jobs) == 0) {\n",
	},
	{
		"a leader asks nobody else whether it leads",
		raftlog + "leadership.go",
		"outcome <- l.raft.VerifyLeader().Error()",
		"outcome <- nil",
	},
	{
		"a term that has ended tells that all went well",
		replica + "term.go",
		"	for _, p := range pending {\n		p.done(t.err)\n",
		"	for _, p := range pending {\n		p.done(nil)\n",
	},
	{
		"an engine reads on when its term is over",
		replica + "term.go",
		"	if err == nil && t.over.Load() {\n		return dst, false, errOver\n",
		"	if err == nil && t.over.Load() && dst == nil && key == nil {\n		return dst, false, errOver\n",
	},
	{
		"a term begins with the clock of the machine",
		replica + "clock.go",
		"	if e.term == 0 {\n		last = max(last, job.TimeOf(at))\n	}\n	return last\n",
		"	return max(last, job.TimeOf(at))\n",
	},
	{
		"entries share their bytes",
		replica + "entry.go",
		"func (e *entry) encode() []byte {\n	p := make([]byte, 0, batchSize+len(e.data)+len(e.node))\n",
		"var shared [1 << 20]byte\n\nfunc (e *entry) encode() []byte {\n	p := shared[:0]\n",
	},
	{
		"a part of a batch counts as applied",
		replica + "replica.go",
		"		held.entry.data = nil\n		return true, nil, nil\n",
		"		held.entry.data = nil\n		r.index = index\n		return true, nil, r.store.Apply(&store.Batch{}, index, r.state.encode())\n",
	},
	{
		"the replicated log is cut at what is applied",
		raftlog + "snapshots.go",
		"	if err := m.n.o.Snapshots.Settle(); err != nil {\n",
		"	if err := error(nil); err != nil {\n",
	},
	{
		"the checksum of a file that another node has sent is not looked at",
		"internal/cluster/receive.go",
		"	if !bytes.Equal(sum.Sum(nil), want[:]) {\n",
		"	if !bytes.Equal(sum.Sum(nil), want[:]) && f.Size < 0 {\n",
	},
	{
		"a file that another node sends goes on from its beginning",
		"internal/cluster/send.go",
		"			from = at.Offset\n",
		"			from = 0\n",
	},
	{
		"a checkpoint is sent although the log does not follow it any more",
		raftlog + "snapshots.go",
		"		case s.held.meta.ID == id || first <= s.held.meta.Index:\n",
		"		case first > 0:\n",
	},
	{
		"a leadership ends by LeaderCh",
		raftlog + "node.go",
		"	n.ended.Go(func() { n.watch(notify) })\n",
		"	n.ended.Go(func() { n.watch(n.raft.LeaderCh()) })\n" +
			"	n.ended.Go(func() {\n		for {\n			select {\n			case <-notify:\n			case <-n.stop:\n				return\n			}\n		}\n	})\n",
	},
	{
		"a node that was sent all data forgets the time",
		raftlog + "node.go",
		"		next.Hear(term, t)\n",
		"		_ = t\n",
	},
	{
		"a pipeline waits for who takes its answers",
		raftlog + "transport.go",
		"	return newPipeline(p), nil\n",
		"	return p, nil\n",
	},
	{
		"what another leader has replaced comes back",
		raftlog + "logstore.go",
		"		if _, err := s.append(binary.BigEndian.AppendUint64([]byte{recordCut}, lo)); err != nil {\n			return err\n		}\n",
		"",
	},
	{
		"a vote is not synced",
		raftlog + "values.go",
		"		err = f.Sync()\n",
		"		err = nil\n",
	},
	{
		"a node keeps its id when it loses its data",
		"internal/server/identity.go",
		"	_, _ = rand.Read(b[:]) // never fails\n",
		"	_, _ = rand.Read(b[:0])\n",
	},
	{
		"whoever answers at an address is taken for the node",
		"internal/cluster/port.go",
		"			if h.To != p.o.ID {\n",
		"			if h.To == \"\" {\n",
	},
	{
		"the store of a node settles in memory only",
		pebbles + "store.go",
		"			return err\n		}\n		return s.flushTables()\n	})\n",
		"			return err\n		}\n		return nil\n	})\n",
	},
}
