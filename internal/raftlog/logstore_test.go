package raftlog

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/hashicorp/raft"
)

// opened is a log store on a disk in memory.
type opened struct {
	*logStore
	kept *values
}

func openTest(t *testing.T, fsys vfs.FS) *opened {
	t.Helper()
	fail := func(err error) { t.Errorf("the store failed: %v", err) }
	kept, err := openValues(fsys, "log", fail)
	if err != nil {
		t.Fatal(err)
	}
	s, err := openLogStore(fsys, "log", kept, 64<<10, fail)
	if err != nil {
		t.Fatal(err)
	}
	return &opened{s, kept}
}

// A log store does what a list of entries does, whatever it is asked for and whenever it is killed.
func TestLogStore(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			testLogStore(t, rand.New(rand.NewPCG(seed, 1)))
		})
	}
}

func testLogStore(t *testing.T, rnd *rand.Rand) {
	t.Helper()
	fsys := vfs.NewCrashableMem()
	if err := makeDir(fsys, "log"); err != nil {
		t.Fatal(err)
	}
	s := openTest(t, fsys)
	var want []raft.Log // without gaps
	next := uint64(1)
	term := uint64(1)
	for range 300 {
		switch n := rnd.IntN(20); {
		case n < 12:
			var logs []*raft.Log
			for range 1 + rnd.IntN(5) {
				l := raft.Log{
					Index: next, Term: term, Type: raft.LogType(rnd.IntN(3)),
					Data: bytes.Repeat([]byte{byte(next)}, rnd.IntN(3000)),
				}
				want = append(want, l)
				logs = append(logs, &l)
				next++
			}
			if err := s.StoreLogs(logs); err != nil {
				t.Fatal(err)
			}
		case n < 14 && len(want) > 1: // another leader replaces the end
			term++
			from := 1 + rnd.IntN(len(want)-1)
			lo := want[from].Index
			if err := s.DeleteRange(lo, next-1); err != nil {
				t.Fatal(err)
			}
			want, next = want[:from], lo
		case n < 16 && len(want) > 0: // what is old goes
			upTo := rnd.IntN(len(want))
			first, _ := s.FirstIndex()
			if err := s.DeleteRange(first, want[upTo].Index); err != nil {
				t.Fatal(err)
			}
			want = want[upTo+1:]
			if len(want) == 0 && rnd.IntN(2) == 0 {
				next += 100 // behind a snapshot
			}
		case n < 18:
			if err := s.kept.SetUint64([]byte("CurrentTerm"), term); err != nil {
				t.Fatal(err)
			}
		case n < 19: // killed: what was synced is there
			fsys = fsys.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rnd.IntN(101), RNG: rnd})
			s = openTest(t, fsys)
		default:
			if err := s.close(); err != nil {
				t.Fatal(err)
			}
			s = openTest(t, fsys)
		}
		compare(t, s, want, rnd)
	}
}

func compare(t *testing.T, s *opened, want []raft.Log, rnd *rand.Rand) {
	t.Helper()
	first, last := uint64(0), uint64(0)
	if len(want) > 0 {
		first, last = want[0].Index, want[len(want)-1].Index
	}
	gotFirst, _ := s.FirstIndex()
	gotLast, _ := s.LastIndex()
	// After a kill, what was dropped at the beginning may be there again.
	if gotLast != last || gotFirst > first || first == 0 && gotFirst != 0 {
		t.Fatalf("entries %d to %d, want %d to %d", gotFirst, gotLast, first, last)
	}
	if rnd.IntN(3) == 0 {
		s.recent = run{} // so that they are read
	}
	for i := range want {
		var l raft.Log
		if err := s.GetLog(want[i].Index, &l); err != nil {
			t.Fatalf("entry %d: %v", want[i].Index, err)
		}
		if l.Index != want[i].Index || l.Term != want[i].Term || l.Type != want[i].Type ||
			!bytes.Equal(l.Data, want[i].Data) {
			t.Fatalf("entry %d is %d of term %d with %d bytes, want term %d with %d", want[i].Index, l.Index, l.Term,
				len(l.Data), want[i].Term, len(want[i].Data))
		}
	}
	var l raft.Log
	if err := s.GetLog(last+1, &l); !errors.Is(err, raft.ErrLogNotFound) {
		t.Fatalf("behind the last entry: %v", err)
	}
}

// What Raft has promised is there after every kill.
func TestValues(t *testing.T) {
	t.Parallel()
	fsys := vfs.NewCrashableMem()
	if err := makeDir(fsys, "log"); err != nil {
		t.Fatal(err)
	}
	s := openTest(t, fsys)
	for n := range uint64(20) {
		if err := s.kept.SetUint64([]byte("CurrentTerm"), n); err != nil {
			t.Fatal(err)
		}
		got, err := openTest(t, fsys.CrashClone(vfs.CrashCloneCfg{})).kept.GetUint64([]byte("CurrentTerm"))
		if err != nil || got != n {
			t.Fatalf("term %d, %v; want %d", got, err, n)
		}
	}
	if _, err := s.kept.Get([]byte("never set")); err == nil || err.Error() != "not found" {
		t.Errorf("a value that is not there: %v", err)
	}
}
