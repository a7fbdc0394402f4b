package lmstfy

import (
	"encoding/binary"
	"slices"
	"sync"
	"testing"

	"millrace/internal/dialect"
	"millrace/internal/job"
)

func TestJobID(t *testing.T) {
	t.Parallel()
	const ms = 1700000000123
	for _, delay := range []uint32{0, 1, 86400, 1<<32 - 1} {
		id := jobID(ms, 0x0000abcdef123456, delay, false)
		u, ok := dialect.ParseULID(id)
		if !ok || u.Time() != ms || binary.LittleEndian.Uint32(u[12:]) != delay || u[6] != 0xab || u[11] != 0x56 {
			t.Errorf("delay %d: id %s is %x", delay, id, u[:])
		}
		if delay == 0 && id[20:] != "000000" {
			t.Errorf("without a delay the id %s does not end in zeros", id)
		}
		versioned := jobID(ms, 0x0000abcdef123456, delay, true)
		if versioned != "1"+id {
			t.Errorf("with attributes the id is %s", versioned)
		}
		for _, text := range []string{id, versioned} {
			if at, ok := publishedAt(text); !ok || at != ms {
				t.Errorf("%s was published at %d, %v", text, at, ok)
			}
		}
	}
	for _, text := range []string{"", "x", "2" + jobID(ms, 0, 0, false), dialect.ULIDOf(7).String()} {
		if at, ok := publishedAt(text); ok {
			t.Errorf("%q was published at %d", text, at)
		}
	}
}

// TestIDsGrow takes ids from many goroutines, with a clock that stands, goes and goes back:
// none comes twice, and those of one goroutine grow.
func TestIDsGrow(t *testing.T) {
	t.Parallel()
	var s idSource
	const takers, each = 8, 2000
	lists := make([][]string, takers)
	var wg sync.WaitGroup
	for i := range lists {
		wg.Go(func() {
			for n := range each {
				now := job.Time(1_700_000_000_000_000 + n/100*1000 - n%7*1000)
				count := 1 + n%3
				ms, first := s.take(now, count)
				for k := range count {
					lists[i] = append(lists[i], jobID(ms, first+uint64(k), 0, false))
				}
			}
		})
	}
	wg.Wait()
	for i, list := range lists {
		if !slices.IsSorted(list) {
			t.Errorf("the ids of goroutine %d do not grow", i)
		}
	}
	all := slices.Concat(lists...)
	slices.Sort(all)
	if n := len(slices.Compact(slices.Clone(all))); n != len(all) {
		t.Errorf("%d different ids of %d", n, len(all))
	}
	if ms, _ := s.take(-5, 1); ms == 0 {
		t.Error("a clock before 1970 goes back")
	}
}

func TestRefTo(t *testing.T) {
	t.Parallel()
	if ref := refTo("ns", "q", dialect.ULIDOf(42).String()); ref != job.ByID("ns", "q", 42) {
		t.Errorf("number: %+v", ref)
	}
	for _, id := range []string{"", "x", jobID(1, 2, 3, false), jobID(1, 2, 3, true)} {
		want := job.Ref{Kind: job.RefKey, Namespace: "ns", Queue: "q", Key: id}
		if ref := refTo("ns", "q", id); ref != want {
			t.Errorf("%q: %+v", id, ref)
		}
	}
}

func TestMaskToken(t *testing.T) {
	t.Parallel()
	for token, want := range map[string]string{
		"01ARZ3NDEKTSV4RRFFQ69G5FAV": "01ARZ3NDEK***", "a token of my own making": "a to***", "short": "***", "": "***",
	} {
		if got := maskToken(token); got != want {
			t.Errorf("%q is shown as %q, want %q", token, got, want)
		}
	}
}
