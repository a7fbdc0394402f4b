package raftlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/hashicorp/raft"

	"millrace/internal/job"
	"millrace/internal/replica"
	"millrace/internal/store"
	"millrace/internal/store/memstore"
	"millrace/internal/testkit"
)

// keeper is a store in memory that knows the entry and the state of its last change.
type keeper struct {
	store.Store
	mu    sync.Mutex
	index uint64
	state []byte
}

func (k *keeper) Apply(b *store.Batch, index uint64, state []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.index, k.state = index, bytes.Clone(state)
	return store.CommitNow(k.Store, b)
}

func (k *keeper) Applied() (uint64, []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.index, k.state
}

// noSnapshots is for logs that are never cut.
type noSnapshots struct{}

func (noSnapshots) Settle() error                      { return nil }
func (noSnapshots) Reach(_, _ string) error            { return errors.ErrUnsupported }
func (noSnapshots) Checkpoint() (Checkpoint, error)    { return nil, errors.ErrUnsupported }
func (noSnapshots) Received(string) error              { return errors.ErrUnsupported }
func (noSnapshots) Restore() (*replica.Replica, error) { return nil, errors.ErrUnsupported }

// member is a node of a cluster in this process.
type member struct {
	*Node
	keeper    *keeper
	fs        *vfs.MemFS
	transport *raft.InmemTransport
	gate      chan struct{} // holds one value, and answers to this node's heartbeats wait for it
}

// gated is a transport whose answers can be held back.
type gated struct {
	Transport
	gate chan struct{}
}

func (g gated) AppendEntries(
	id raft.ServerID, addr raft.ServerAddress, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse,
) error {
	err := g.Transport.AppendEntries(id, addr, req, resp)
	pass := <-g.gate
	g.gate <- pass
	return err
}

// cluster returns nodes that can reach each other, and have been made a cluster.
func cluster(t *testing.T, size int) []*member {
	t.Helper()
	return clusterWith(t, slices.Repeat([]time.Duration{500 * time.Millisecond}, size)...)
}

// clusterWith returns a cluster of nodes for which a leader may be silent for so long.
func clusterWith(t *testing.T, elections ...time.Duration) []*member {
	t.Helper()
	members := make([]*member, len(elections))
	var servers []Server
	for i := range members {
		m := &member{keeper: &keeper{Store: memstore.New()}, fs: vfs.NewCrashableMem(), gate: make(chan struct{}, 1)}
		m.gate <- struct{}{}
		var addr raft.ServerAddress
		addr, m.transport = raft.NewInmemTransportWithTimeout(raft.ServerAddress(fmt.Sprintf("addr-%d", i)),
			time.Second)
		servers = append(servers, Server{ID: fmt.Sprintf("n%d", i), Addr: string(addr)})
		members[i] = m
	}
	for i, m := range members {
		for j, other := range members {
			if i != j {
				m.transport.Connect(raft.ServerAddress(servers[j].Addr), other.transport)
			}
		}
		r, err := replica.Open(m.keeper)
		if err != nil {
			t.Fatal(err)
		}
		m.Node, err = Open(Options{
			Name: servers[i].ID, ID: servers[i].ID, Dir: "log", FS: m.fs, Replica: r, Snapshots: noSnapshots{},
			Transport: gated{m.transport, m.gate},
			Election:  elections[i], SegmentBytes: 1 << 20,
			OnFatal: func(err error) { t.Errorf("node %d: %v", i, err) },
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = m.Close() })
	}
	if err := members[0].Bootstrap(servers); err != nil {
		t.Fatal(err)
	}
	return members
}

// leader returns the next term that begins, and whose it is.
func leader(t *testing.T, members []*member) (*member, *replica.Term) {
	t.Helper()
	type begun struct {
		m *member
		t *replica.Term
	}
	found := make(chan begun)
	stop := make(chan struct{})
	defer close(stop)
	for _, m := range members {
		go func() {
			select {
			case term := <-m.Terms():
				select {
				case found <- begun{m, term}:
				case <-stop:
					term.End(errors.New("not wanted"))
				}
			case <-stop:
			}
		}()
	}
	select {
	case b := <-found:
		return b.m, b.t
	case <-time.After(20 * time.Second):
		t.Fatal("no node leads")
		return nil, nil
	}
}

func commit(t *testing.T, term *replica.Term, key, value string) error {
	t.Helper()
	b := &store.Batch{}
	b.Set([]byte(key), []byte(value))
	return store.CommitNow(term, b)
}

// What was committed under one leader is there under the next, on every node.
func TestTermsFollowEachOther(t *testing.T) {
	t.Parallel()
	members := cluster(t, 3)
	first, term := leader(t, members)
	for i := range 50 {
		if err := commit(t, term, fmt.Sprintf("k%d", i), "v"); err != nil {
			t.Fatal(err)
		}
	}
	confirmed := make(chan error, 1)
	term.Confirm(func(err error) { confirmed <- err })
	if err := <-confirmed; err != nil {
		t.Errorf("the leader is not confirmed: %v", err)
	}
	if took := first.Times().Confirms; took.Count != 1 || took.Sum <= 0 {
		t.Errorf("%d confirmations took %s", took.Count, took.Sum)
	}

	// The leader is cut off: its term ends, and another node leads.
	first.transport.DisconnectAll()
	var others []*member
	for _, m := range members {
		if m != first {
			m.transport.Disconnect(first.transport.LocalAddr())
			others = append(others, m)
		}
	}
	second, next := leader(t, others)
	if next.Number() <= term.Number() {
		t.Errorf("term %d follows term %d", next.Number(), term.Number())
	}
	if err := commit(t, next, "after", "v"); err != nil {
		t.Fatal(err)
	}
	if err := commit(t, term, "stale", "v"); err == nil {
		t.Error("a node that is cut off commits")
	}
	<-term.Lost()
	for i := range 50 {
		if _, ok, err := second.keeper.Get(nil, fmt.Appendf(nil, "k%d", i)); err != nil || !ok {
			t.Fatalf("k%d is not there: %v", i, err)
		}
	}
	if _, ok, _ := second.keeper.Get(nil, []byte("stale")); ok {
		t.Error("what was never committed is there")
	}
}

// A leader gives its part away, and the next one has everything.
func TestTransfer(t *testing.T) {
	t.Parallel()
	members := cluster(t, 3)
	first, term := leader(t, members)
	if err := commit(t, term, "a", "1"); err != nil {
		t.Fatal(err)
	}
	result := make(chan error, 1)
	go func() { result <- first.Transfer() }()
	second, next := leader(t, members)
	if err := <-result; err != nil {
		t.Fatal(err)
	}
	if second == first {
		t.Fatal("the same node leads again")
	}
	if err := commit(t, next, "b", "2"); err != nil {
		t.Fatal(err)
	}
	if v, _, _ := second.keeper.Get(nil, []byte("a")); string(v) != "1" {
		t.Errorf("a is %q", v)
	}
}

// Confirmations that are asked for together share rounds, and all are answered.
func TestConfirmations(t *testing.T) {
	t.Parallel()
	members := cluster(t, 3)
	_, term := leader(t, members)
	var wg sync.WaitGroup
	for range 200 {
		wg.Add(1)
		term.Confirm(func(err error) {
			defer wg.Done()
			if err != nil {
				t.Errorf("not confirmed: %v", err)
			}
		})
	}
	wg.Wait()
}

// restored is a store that was received from another node.
type restored struct{ noSnapshots }

func (restored) Restore() (*replica.Replica, error) {
	return replica.Open(&keeper{Store: memstore.New()})
}

// A node that was sent the data of another one still knows what time it is: its own clock may be far from it.
func TestRestoreKeepsTheTime(t *testing.T) {
	t.Parallel()
	r, err := replica.Open(&keeper{Store: memstore.New()})
	if err != nil {
		t.Fatal(err)
	}
	n := &Node{o: Options{Snapshots: restored{}}, replica: r}
	const heard = job.Time(5_000_000)
	n.Hear(7, heard)
	if err := (fsm{n}).Restore(io.NopCloser(&bytes.Buffer{})); err != nil {
		t.Fatal(err)
	}
	if term, now := n.Time(); term != 7 || now < heard {
		t.Errorf("it is %d in term %d, and was %d in term 7", now, term, heard)
	}
}

// A node does not lead again before everything that belongs to its last leadership has ended.
func TestRaftWaitsForTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		members := clusterWith(t, 500*time.Millisecond, time.Hour, time.Hour) // nobody else wants to lead
		n, term := leader(t, members)
		connect := func(to bool) {
			for _, m := range members[1:] {
				if to {
					n.transport.Connect(m.transport.LocalAddr(), m.transport)
				} else {
					n.transport.Disconnect(m.transport.LocalAddr())
				}
			}
		}
		// Somebody who has asked for a confirmation does not come to an end with it.
		asked, goOn := make(chan struct{}), make(chan struct{})
		term.Confirm(func(error) {
			close(asked)
			<-goOn
		})
		<-asked
		connect(false)
		<-term.Lost()
		last := n.raft.LastIndex()
		connect(true)
		testkit.Advance(t, 10*time.Second)
		if now := n.raft.LastIndex(); now != last {
			t.Errorf("it leads again: the log was at %d, and is at %d", last, now)
		}
		close(goOn)
		if _, next := leader(t, members); next.Number() != term.Number()+1 {
			t.Errorf("term %d follows term %d", next.Number(), term.Number())
		}
		// Raft steps down first: it does not answer all who wait when it is shut down while it leads.
		connect(false)
		testkit.Advance(t, 10*time.Second)
	})
}

// unconfirmed asks for a confirmation, runs what may give a wrong one, and expects none.
func unconfirmed(t *testing.T, term *replica.Term, meanwhile func()) {
	t.Helper()
	confirmed := make(chan error, 1)
	term.Confirm(func(err error) { confirmed <- err })
	meanwhile()
	if err := <-confirmed; err == nil {
		t.Error("it is confirmed")
	}
	testkit.Advance(t, 10*time.Second)
}

// A leader that reaches nobody is not confirmed, also as long as it does not know that it leads no more.
func TestConfirmAsksOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		members := clusterWith(t, 500*time.Millisecond, time.Hour, time.Hour) // nobody else wants to lead
		n, term := leader(t, members)
		n.transport.DisconnectAll()
		unconfirmed(t, term, func() {})
	})
}

// An answer that was on its way before somebody asked does not confirm a leader: another one may lead since.
func TestLateAnswerConfirmsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		members := clusterWith(t, 500*time.Millisecond, time.Hour, time.Hour) // nobody else wants to lead
		n, term := leader(t, members)
		pass := <-n.gate
		testkit.Advance(t, 200*time.Millisecond) // every heartbeat waits for its answer
		n.transport.DisconnectAll()
		unconfirmed(t, term, func() {
			synctest.Wait()
			n.gate <- pass
		})
	})
}

// A learner that follows a leader does not confirm it: the others may have elected another one without it.
func TestLearnerConfirmsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		members := clusterWith(t, 500*time.Millisecond, time.Hour, time.Hour, time.Hour) // nobody else wants to lead
		n, term := leader(t, members)
		learner := members[3]
		demoted := n.raft.DemoteVoter(raft.ServerID(learner.o.ID), 0, 0)
		if err := demoted.Error(); err != nil {
			t.Fatal(err)
		}
		for _, m := range members[1:3] {
			n.transport.Disconnect(m.transport.LocalAddr())
		}
		unconfirmed(t, term, func() {})
	})
}
