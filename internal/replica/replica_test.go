package replica_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/internal/job"
	"millrace/internal/replica"
	"millrace/internal/store"
	"millrace/internal/store/memstore"
)

// keeper is a store in memory that knows the entry and the state of its last change.
type keeper struct {
	store.Store
	index   uint64
	state   []byte
	applies int
}

func newKeeper() *keeper { return &keeper{Store: memstore.New()} }

func (k *keeper) Apply(b *store.Batch, index uint64, state []byte) error {
	k.index, k.state = index, bytes.Clone(state)
	k.applies++
	return store.CommitNow(k.Store, b)
}

func (k *keeper) Applied() (uint64, []byte) { return k.index, k.state }

// log is a replicated log: what was proposed is committed when the test says so, in the order that it says.
type log struct {
	t       *testing.T
	entries [][]byte
	failed  []func(error)
	nodes   []*node
	// proposed gets something with every proposal.
	proposed chan struct{}
}

type node struct {
	keeper  *keeper
	replica *replica.Replica
	applied int // how many entries
}

func newLog(t *testing.T, nodes int) *log {
	t.Helper()
	l := &log{t: t, proposed: make(chan struct{}, 1)}
	for range nodes {
		n := &node{keeper: newKeeper()}
		n.open(t)
		l.nodes = append(l.nodes, n)
	}
	return l
}

func (n *node) open(t *testing.T) {
	t.Helper()
	var err error
	if n.replica, err = replica.Open(n.keeper); err != nil {
		t.Fatal(err)
	}
}

func (l *log) Propose(content []byte, failed func(error)) {
	l.entries = append(l.entries, content)
	l.failed = append(l.failed, failed)
	select {
	case l.proposed <- struct{}{}:
	default:
	}
}

func (l *log) Confirm(done func(error)) { done(nil) }

// deliver applies all entries on a node.
func (l *log) deliver(n *node) (accepted int, err error) {
	for ; n.applied < len(l.entries); n.applied++ {
		ok, err := n.replica.Apply(uint64(n.applied+1), bytes.Clone(l.entries[n.applied]))
		if err != nil {
			return accepted, err
		}
		if ok {
			accepted++
		}
	}
	return accepted, nil
}

func (l *log) deliverAll() {
	l.t.Helper()
	for i, n := range l.nodes {
		if _, err := l.deliver(n); err != nil {
			l.t.Fatalf("node %d: %v", i, err)
		}
	}
}

// drain forgets that something was proposed.
func (l *log) drain() {
	select {
	case <-l.proposed:
	default:
	}
}

// begin begins a term of a node.
func (l *log) begin(n *node) *replica.Term {
	l.t.Helper()
	result := make(chan *replica.Term, 1)
	l.drain()
	go func() {
		t, err := n.replica.Begin(context.Background(), l, "n")
		if err != nil {
			l.t.Error(err)
		}
		result <- t
	}()
	<-l.proposed
	l.deliverAll()
	t := <-result
	if t == nil {
		l.t.FailNow()
	}
	return t
}

func set(key, value string) *store.Batch {
	b := &store.Batch{}
	b.Set([]byte(key), []byte(value))
	return b
}

func (n *node) get(t *testing.T, key string) string {
	t.Helper()
	v, _, err := n.keeper.Get(nil, []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	return string(v)
}

func outcome(got *error) func(error) {
	*got = errPending
	return func(err error) { *got = err }
}

var errPending = errors.New("pending")

func TestBatchIsOnAllNodes(t *testing.T) {
	l := newLog(t, 3)
	term := l.begin(l.nodes[0])
	var first, second error
	term.Commit(set("a", "1"), outcome(&first))
	term.Commit(set("a", "2"), outcome(&second))
	if !errors.Is(first, errPending) || !errors.Is(second, errPending) {
		t.Error("answered before the entry was applied")
	}
	l.deliverAll()
	if first != nil || second != nil {
		t.Errorf("answers %v and %v", first, second)
	}
	want, _ := l.nodes[0].replica.State()
	for i, n := range l.nodes {
		if got := n.get(t, "a"); got != "2" {
			t.Errorf("node %d has %q", i, got)
		}
		if got, _ := n.replica.State(); got != want || got.Seq != 2 {
			t.Errorf("node %d has state %+v, the leader %+v", i, got, want)
		}
	}
}

// A node that leads no more cannot write, also if its entries come behind the beginning of another term.
func TestFence(t *testing.T) {
	l := newLog(t, 3)
	old := l.begin(l.nodes[0])
	var before, after, late error
	old.Commit(set("a", "old"), outcome(&before))
	l.deliverAll()
	next := l.begin(l.nodes[1])
	old.Commit(set("a", "stale"), outcome(&after))
	next.Commit(set("b", "new"), outcome(&late))
	l.deliverAll()
	if before != nil || !errors.Is(after, replica.ErrFenced) || late != nil {
		t.Errorf("answers %v, %v, %v", before, after, late)
	}
	select {
	case <-old.Lost():
	default:
		t.Error("the old term does not know that it has ended")
	}
	for i, n := range l.nodes {
		if n.get(t, "a") != "old" || n.get(t, "b") != "new" {
			t.Errorf("node %d: a %q, b %q", i, n.get(t, "a"), n.get(t, "b"))
		}
	}
}

// The stale entry may also be in the log already when the new term begins, or come from a term of the same node.
func TestFenceInFlight(t *testing.T) {
	l := newLog(t, 3)
	old := l.begin(l.nodes[0])
	l.deliverAll()
	next := l.begin(l.nodes[0])
	l.entries = slices.Clip(l.entries)
	var stale, fresh error
	old.Commit(set("a", "stale"), outcome(&stale))
	next.Commit(set("a", "fresh"), outcome(&fresh))
	l.deliverAll()
	if !errors.Is(stale, replica.ErrFenced) || fresh != nil {
		t.Errorf("answers %v, %v", stale, fresh)
	}
	for i, n := range l.nodes {
		if got := n.get(t, "a"); got != "fresh" {
			t.Errorf("node %d has %q", i, got)
		}
	}
}

// An entry that was dropped takes those behind it with it.
func TestGapIsVoid(t *testing.T) {
	l := newLog(t, 3)
	term := l.begin(l.nodes[0])
	var first, second error
	term.Commit(set("a", "1"), outcome(&first))
	term.Commit(set("b", "2"), outcome(&second))
	lost := l.failed[1]
	l.entries = append(l.entries[:1:1], l.entries[2:]...)
	l.deliverAll()
	lost(errors.New("not the leader"))
	if first == nil || second == nil || errors.Is(first, errPending) || errors.Is(second, errPending) {
		t.Errorf("answers %v, %v", first, second)
	}
	for i, n := range l.nodes {
		if n.get(t, "b") != "" {
			t.Errorf("node %d has applied what came behind a gap", i)
		}
	}
}

func TestEntryTwice(t *testing.T) {
	l := newLog(t, 1)
	term := l.begin(l.nodes[0])
	var done error
	term.Commit(set("a", "1"), outcome(&done))
	l.entries = append(l.entries, l.entries[1])
	l.deliverAll()
	if s, _ := l.nodes[0].replica.State(); s.Seq != 1 {
		t.Errorf("state %+v after an entry that came twice", s)
	}
}

// A large batch is applied as a whole, or not at all.
func TestParts(t *testing.T) {
	l := newLog(t, 3)
	term := l.begin(l.nodes[0])
	big := &store.Batch{}
	for i := range 100 {
		big.Set(fmt.Appendf(nil, "k%02d", i), bytes.Repeat([]byte{byte(i)}, 10_000))
	}
	var done error
	term.Commit(big, outcome(&done))
	if len(l.entries) < 4 {
		t.Fatalf("%d entries", len(l.entries))
	}
	// One node is killed when it has some of the parts, and an entry behind them that is void.
	n := l.nodes[1]
	whole := slices.Insert(l.entries, 3, l.entries[0])
	l.entries = whole[:4]
	if _, err := l.deliver(n); err != nil {
		t.Fatal(err)
	}
	if n.replica.Whole() {
		t.Error("a node that has a part of a batch says that it has all")
	}
	if got := n.get(t, "k00"); got != "" {
		t.Error("a part was applied")
	}
	l.entries = whole
	n.open(t)
	index, _ := n.keeper.Applied()
	n.applied = int(index)
	l.deliverAll()
	if done != nil {
		t.Error(done)
	}
	for i, n := range l.nodes {
		if got := n.get(t, "k99"); len(got) != 10_000 {
			t.Errorf("node %d has %d bytes", i, len(got))
		}
	}

	// A term that begins between the parts voids them.
	var cut error
	term.Commit(big, outcome(&cut))
	l.entries = l.entries[:len(l.entries)-1]
	next := l.begin(l.nodes[2])
	var small error
	next.Commit(set("k99", "x"), outcome(&small))
	l.deliverAll()
	if cut == nil || small != nil {
		t.Errorf("answers %v, %v", cut, small)
	}
	for i, n := range l.nodes {
		if got := n.get(t, "k99"); got != "x" || !n.replica.Whole() {
			t.Errorf("node %d has %d bytes, whole %v", i, len(got), n.replica.Whole())
		}
	}
}

// Every wrong bit of an entry is found, and stops the node.
func TestDamage(t *testing.T) {
	l := newLog(t, 1)
	term := l.begin(l.nodes[0])
	var done error
	term.Commit(set("a", "1"), outcome(&done))
	good := l.entries[1]
	for bit := range len(good) * 8 {
		bad := bytes.Clone(good)
		bad[bit/8] ^= 1 << (bit % 8)
		if ok, err := l.nodes[0].replica.Apply(2, bad); err == nil || ok {
			t.Fatalf("bit %d: accepted %v, error %v", bit, ok, err)
		}
	}
	l.deliverAll()
	if done != nil {
		t.Error(done)
	}
}

// Two nodes whose data differs find out when the next term begins.
func TestDivergence(t *testing.T) {
	l := newLog(t, 2)
	term := l.begin(l.nodes[0])
	var done error
	term.Commit(set("a", "1"), outcome(&done))
	l.deliverAll()
	s, index := l.nodes[1].replica.State()
	other := newLog(t, 1)
	foreign := other.begin(other.nodes[0])
	foreign.Commit(set("a", "2"), outcome(&done))
	other.deliverAll()
	l.nodes[1].keeper.state = other.nodes[0].keeper.state
	l.nodes[1].open(t)
	if got, i := l.nodes[1].replica.State(); got.Seq != s.Seq || i != index || got.Chain == s.Chain {
		t.Fatalf("state %+v at %d, want another chain than %+v at %d", got, i, s, index)
	}
	l.drain()
	go func() { _, _ = l.nodes[0].replica.Begin(t.Context(), l, "n") }()
	<-l.proposed
	_, err := l.deliver(l.nodes[1])
	if !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("error %v", err)
	}
}

// A node that does not have the beginning of a term lacks entries.
func TestMissingBeginning(t *testing.T) {
	l := newLog(t, 1)
	term := l.begin(l.nodes[0])
	var done error
	term.Commit(set("a", "1"), outcome(&done))
	n := &node{keeper: newKeeper()}
	n.open(t)
	if _, err := n.replica.Apply(2, l.entries[1]); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("error %v", err)
	}
}

// After a restart the entries that the store has are passed over, whichever were there when it was killed.
func TestReplay(t *testing.T) {
	l := newLog(t, 1)
	term := l.begin(l.nodes[0])
	for i := range 20 {
		var done error
		term.Commit(set("n", fmt.Sprint(i)), outcome(&done))
	}
	l.deliverAll()
	n := l.nodes[0]
	for range 20 {
		at := rand.IntN(len(l.entries) + 1)
		fresh := &node{keeper: newKeeper()}
		fresh.open(t)
		saved := l.entries
		l.entries = saved[:at]
		if _, err := l.deliver(fresh); err != nil {
			t.Fatal(err)
		}
		l.entries = saved
		fresh.open(t)
		fresh.applied = 0
		if _, err := l.deliver(fresh); err != nil {
			t.Fatal(err)
		}
		got, _ := fresh.replica.State()
		want, _ := n.replica.State()
		if got != want || fresh.keeper.applies != len(l.entries) {
			t.Errorf("killed at %d: state %+v after %d applications, want %+v after %d", at, got, fresh.keeper.applies,
				want, len(l.entries))
		}
	}
}

func TestTimeGoesOn(t *testing.T) {
	l := newLog(t, 2)
	term := l.begin(l.nodes[0])
	ahead := job.TimeOf(time.Now().Add(time.Hour))
	l.nodes[1].replica.Hear(2, ahead)
	next := l.begin(l.nodes[1])
	if got := next.Now(); got < ahead || got > ahead.Add(time.Minute) {
		t.Errorf("the term begins %v after what its leader has heard", got.Sub(ahead))
	}
	if term.Now() > ahead {
		t.Error("a term that hears nothing has another time than the clock")
	}
	last := next.Now()
	for range 1000 {
		now := next.Now()
		if now < last {
			t.Fatal("time went back")
		}
		last = now
	}
}

// Two nodes may want the same term. Whose entry is dropped does not take that of the other for its own.
func TestTermOfAnother(t *testing.T) {
	l := newLog(t, 2)
	var lost, won []*replica.Term
	l.nodes[0].replica.StartTerm(l, "a", func(term *replica.Term, _ error) { lost = append(lost, term) })
	l.entries = nil // the log has dropped it and says nothing
	l.nodes[1].replica.StartTerm(l, "b", func(term *replica.Term, _ error) { won = append(won, term) })
	l.deliverAll()
	if len(lost) != 0 || len(won) != 1 || won[0] == nil {
		t.Errorf("node a was told of %d terms, node b of %d", len(lost), len(won))
	}
	if s, _ := l.nodes[0].replica.State(); s.Term != 1 || s.Node != "b" {
		t.Errorf("node a is at %+v", s)
	}
}

// A node that wants to lead without having all batches does not, and goes on to follow.
func TestBeginsBehind(t *testing.T) {
	l := newLog(t, 2)
	term := l.begin(l.nodes[0])
	var first, second, begun error
	term.Commit(set("a", "1"), outcome(&first))
	l.nodes[1].replica.StartTerm(l, "b", func(_ *replica.Term, err error) { begun = err })
	term.Commit(set("a", "2"), outcome(&second))
	l.deliverAll()
	if first != nil || second != nil || !errors.Is(begun, replica.ErrFenced) || l.nodes[1].get(t, "a") != "2" {
		t.Errorf("answers %v and %v, the beginning: %v", first, second, begun)
	}
}

// The terms of a new cluster are above all that its data has seen, whatever the clock says.
func TestNewCluster(t *testing.T) {
	var state []byte
	for _, c := range []struct{ clock, term int64 }{{1000, 1000}, {500, 1000}, {2000, 2000}} {
		var err error
		if state, err = replica.NewCluster(state, time.Unix(c.clock, 0)); err != nil {
			t.Fatal(err)
		}
		n := &node{keeper: newKeeper()}
		n.keeper.state = state
		n.open(t)
		if got, _ := n.replica.State(); got.Term != uint64(c.term) {
			t.Errorf("at second %d it is term %d", c.clock, got.Term)
		}
	}
}

// A node that has heard the time of a term learns from its batches that it is later.
func TestTimeOfBatches(t *testing.T) {
	l := newLog(t, 2)
	term := l.begin(l.nodes[0])
	now := term.Now()
	l.nodes[1].replica.Hear(term.Number(), now.Add(-time.Hour))
	var done error
	term.Commit(set("a", "1"), outcome(&done))
	l.deliverAll()
	if of, got := l.nodes[1].replica.Time(); of != term.Number() || got < now || done != nil {
		t.Errorf("in term %d it is %v behind; %v", of, now.Sub(got), done)
	}
}

// An engine that does not know yet that its term has ended must not see what the next one writes.
func TestNoReadsAfterTheEnd(t *testing.T) {
	l := newLog(t, 2)
	old := l.begin(l.nodes[0])
	var done error
	old.Commit(set("a", "1"), outcome(&done))
	l.deliverAll()
	count := func() (n int, err error) {
		err = old.Scan(store.Range{}, func([]byte, []byte) bool { n++; return true })
		return n, err
	}
	if v, ok, err := old.Get(nil, []byte("a")); string(v) != "1" || !ok || err != nil {
		t.Errorf("read %q, %v, %v", v, ok, err)
	}
	if n, err := count(); n != 1 || err != nil {
		t.Errorf("a scan finds %d keys, %v", n, err)
	}
	next := l.begin(l.nodes[1])
	next.Commit(set("a", "2"), outcome(&done))
	l.deliverAll()
	if v, ok, err := old.Get(nil, []byte("a")); ok || err == nil {
		t.Errorf("the old term reads %q", v)
	}
	if n, err := count(); n != 0 || err == nil {
		t.Errorf("a scan of the old term finds %d keys", n)
	}
	if err := old.Scan(store.Range{Lo: []byte("x")}, func([]byte, []byte) bool { return true }); err == nil {
		t.Error("a scan of the old term finds nothing and says nothing")
	}
}

func TestClosedTermRefuses(t *testing.T) {
	l := newLog(t, 1)
	term := l.begin(l.nodes[0])
	var pending, later error
	term.Commit(set("a", "1"), outcome(&pending))
	term.End(errors.New("lost"))
	term.Commit(set("a", "2"), outcome(&later))
	if pending == nil || later == nil || !strings.Contains(pending.Error(), "lost") {
		t.Errorf("answers %v, %v", pending, later)
	}
	l.deliverAll() // what was on its way may still be committed, and then every node has it
	if got := l.nodes[0].get(t, "a"); got != "1" {
		t.Errorf("a is %q", got)
	}
	var confirmed error
	term.Confirm(outcome(&confirmed))
	if confirmed == nil {
		t.Error("a term that has ended was confirmed")
	}
}

// A cluster that was down for long begins with the clock of the machine, not where its log has stopped.
func TestColdStart(t *testing.T) {
	l := newLog(t, 1)
	term := l.begin(l.nodes[0])
	var done error
	term.Commit(set("a", "1"), outcome(&done))
	l.deliverAll()
	n := &node{keeper: newKeeper()}
	var err error
	later := time.Now().Add(10 * time.Hour)
	if n.replica, err = replica.OpenWith(n.keeper,
		replica.Options{Now: func() time.Time { return later }}); err != nil {
		t.Fatal(err)
	}
	l.nodes = []*node{n}
	l.deliverAll()
	if got := l.begin(n).Now(); got < job.TimeOf(later) {
		t.Errorf("the term begins %v before the clock of the machine", job.TimeOf(later).Sub(got))
	}
}
