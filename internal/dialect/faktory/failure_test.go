package faktory_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/internal/dialect/faktory"
	"millrace/internal/dialect/faktory/faktorytest"
	"millrace/internal/testkit"
)

// TestFailure follows one job through its retries to its death.
func TestFailure(t *testing.T) {
	t.Parallel()
	inBubble(t, faktory.Options{}, func(t *testing.T, b *bench) {
		t.Helper()
		c := b.client("")
		j := newJob("q")
		retry := 2
		j.Retry = &retry
		must(t, c.Push(j))
		testkit.Advance(t, time.Second)
		first := time.Now().UTC().Format(time.RFC3339Nano)
		for n := range 3 {
			got, err := c.Fetch("q")
			must(t, err)
			if n == 0 && got.Failure != nil {
				t.Errorf("failure before the first: %+v", got.Failure)
			}
			if f := got.Failure; n > 0 {
				if f == nil {
					t.Fatal("no failure")
				}
				want := faktorytest.Failure{
					RetryCount: n - 1, Remaining: retry - n + 1, FailedAt: first, NextAt: got.EnqueuedAt,
					ErrType: "Boom", Message: fmt.Sprint("number ", n-1), Backtrace: []string{"one", "two"},
				}
				same(t, "failure", f, want)
			}
			must(t,
				c.OK(fmt.Sprintf(`FAIL {"jid":%q,"errtype":" Boom ","message":"number %d\n","backtrace":["one","two"]}`,
					j.JID, n)))
			if n < retry {
				due := b.retrying("q")[0].RunAt.Std()
				low := time.Duration(n*n*n*n+15) * time.Second
				if wait := time.Until(due); wait < low || wait > low+time.Duration(29*(n+1))*time.Second {
					t.Errorf("failure %d: retried after %v", n, wait)
				}
				testkit.Advance(t, time.Until(due)-time.Microsecond)
				same(t, "sets", b.sets(c), map[string]uint64{"dead": 0, "retries": 1, "scheduled": 0, "working": 0})
				testkit.Advance(t, time.Microsecond)
			}
		}
		same(t, "sets", b.sets(c), map[string]uint64{"dead": 1, "retries": 0, "scheduled": 0, "working": 0})
		// It is kept for 180 days, and shows its failure when it is requeued.
		testkit.Advance(t, 180*24*time.Hour-time.Second)
		c = b.client("")
		must(t, c.OK(`MUTATE {"cmd":"requeue","target":"dead"}`))
		got, err := c.Fetch("q")
		must(t, err)
		same(t, "retry_count and remaining", []int{got.Failure.RetryCount, got.Failure.Remaining}, []int{2, 0})
		if got.Failure.FailedAt != first || got.Failure.NextAt != "" {
			t.Errorf("failure %+v", got.Failure)
		}
		must(t, c.Fail(j.JID, "", ""))
		testkit.Advance(t, 180*24*time.Hour)
		same(t, "sets", b.sets(b.client("")), map[string]uint64{"dead": 0, "retries": 0, "scheduled": 0, "working": 0})
	})
}

// TestFirstFailure remembers when the first of many failures was.
func TestFirstFailure(t *testing.T) {
	t.Parallel()
	inBubble(t, faktory.Options{}, func(t *testing.T, b *bench) {
		t.Helper()
		c := b.client("")
		must(t, c.Push(newJob("q")))
		first := time.Now().UTC().Format(time.RFC3339Nano)
		for n := range 15 {
			got, err := c.Fetch("q")
			must(t, err)
			if f := got.Failure; n > 0 && (f.FailedAt != first || f.RetryCount != n-1 || f.Remaining != 26-n ||
				f.Message != fmt.Sprint("number ", n-1)) {
				t.Errorf("after %d failures: %+v", n, f)
			}
			must(t, c.Fail(got.JID, "E", fmt.Sprint("number ", n)))
			testkit.Advance(t, time.Second)
			must(t, c.OK(`MUTATE {"cmd":"requeue","target":"retries"}`))
		}
	})
}

// TestFailureTexts cuts and trims what a worker says.
func TestFailureTexts(t *testing.T) {
	t.Parallel()
	lines := make([]string, 60)
	for i := range lines {
		lines[i] = fmt.Sprint("line ", i)
	}
	lines[3] = strings.Repeat("ä", 600)
	inBubble(t, faktory.Options{}, func(t *testing.T, b *bench) {
		t.Helper()
		c := b.client("")
		for _, test := range []struct {
			fail string
			want faktorytest.Failure
		}{
			{`{"jid":"00000001"}`, faktorytest.Failure{ErrType: "unknown", Message: "unknown"}},
			{
				`{"jid":"00000001","errtype":"  ","message":"\t\n","backtrace":null}`,
				faktorytest.Failure{ErrType: "unknown", Message: "unknown"},
			},
			{
				// Cut at a character: the hundredth byte is the middle of one.
				`{"jid":"00000001","errtype":" x` + strings.Repeat("ä", 60) + `","message":"` +
					strings.Repeat("m", 1001) + `"}`,
				faktorytest.Failure{ErrType: "x" + strings.Repeat("ä", 49), Message: strings.Repeat("m", 1000)},
			},
			{
				`{"jid":"00000001","backtrace":["` + strings.Join(lines, `","`) + `"]}`,
				faktorytest.Failure{
					ErrType: "unknown", Message: "unknown",
					Backtrace: slices.Concat(lines[:3], []string{strings.Repeat("ä", 500)}, lines[4:50]),
				},
			},
		} {
			must(t, c.Push(faktorytest.Job{JID: "00000001", Type: "task", Args: json.RawMessage(`[]`)}))
			_, err := c.Fetch("default")
			must(t, err)
			must(t, c.OK("FAIL "+test.fail))
			must(t, c.OK(`MUTATE {"cmd":"requeue","target":"retries"}`))
			got, err := c.Fetch("default")
			must(t, err)
			same(t, "failure", faktorytest.Failure{
				ErrType: got.Failure.ErrType, Message: got.Failure.Message,
				Backtrace: got.Failure.Backtrace,
			}, test.want)
			must(t, c.Ack("00000001"))
		}
	})
}

// TestLapse lets a reservation end and looks at the failure that it is.
func TestLapse(t *testing.T) {
	t.Parallel()
	inBubble(t, faktory.Options{}, func(t *testing.T, b *bench) {
		t.Helper()
		c := b.client("")
		j := newJob("q")
		j.ReserveFor = 61
		must(t, c.Push(j))
		_, err := c.Fetch("q")
		must(t, err)
		testkit.Advance(t, 61*time.Second-time.Microsecond)
		same(t, "sets", b.sets(c), map[string]uint64{"dead": 0, "retries": 0, "scheduled": 0, "working": 1})
		testkit.Advance(t, 15*time.Second)
		same(t, "sets", b.sets(c), map[string]uint64{"dead": 0, "retries": 1, "scheduled": 0, "working": 0})
		info, err := c.Info()
		must(t, err)
		same(t, "totals", []uint64{info.Faktory.TotalFailures, info.Faktory.TotalProcessed}, []uint64{1, 1})
		same(t, "busy", info.Faktory.Tasks["Busy"], map[string]float64{"reaped": 1, "size": 0})
		testkit.Advance(t, 44*time.Second)
		got, err := c.Fetch("q")
		must(t, err)
		if f := got.Failure; f == nil || f.ErrType != "ReservationExpired" ||
			f.Message != "Faktory job reservation expired" || f.Backtrace != nil || f.Remaining != 25 {
			t.Errorf("failure %+v", f)
		}
	})
}

// TestRetryOutcomes has jobs fail for the first time with all sorts of retry, pushed in
// between by others that say nothing or something else.
func TestRetryOutcomes(t *testing.T) {
	t.Parallel()
	inBubble(t, faktory.Options{}, func(t *testing.T, b *bench) {
		t.Helper()
		c, other := b.client(""), b.client("")
		for retry, want := range map[int]string{
			0: "", -1: "dead", -7: "dead", 1: "retries", 25: "retries",
			1 << 40: "retries",
		} {
			must(t, c.OK("FLUSH"))
			j := newJob("q")
			j.Retry = &retry
			must(t, c.Push(j))
			// What another producer says must not leak into a job that says nothing.
			silent := newJob("silent")
			must(t, other.Push(silent))
			for _, jid := range []string{j.JID, silent.JID} {
				got, err := c.Fetch("q", "silent")
				must(t, err)
				if got.JID == silent.JID && *got.Retry != 25 {
					t.Errorf("retry leaks: %d", *got.Retry)
				}
				must(t, c.Fail(jid, "E", "m"))
			}
			sets := map[string]uint64{"dead": 0, "retries": 1, "scheduled": 0, "working": 0}
			if want != "" {
				sets[want]++
			}
			same(t, fmt.Sprintf("sets with retry %d", retry), b.sets(c), sets)
		}
	})
}

// TestRetryBounds fails many jobs and looks at the spread of their back-offs.
func TestRetryBounds(t *testing.T) {
	t.Parallel()
	inBubble(t, faktory.Options{}, func(t *testing.T, b *bench) {
		t.Helper()
		const jobs = 600
		c := b.client("")
		for range jobs {
			must(t, c.Push(newJob("q")))
		}
		for n := range 4 {
			for range jobs {
				j, err := c.Fetch("q")
				must(t, err)
				must(t, c.Fail(j.JID, "E", "m"))
			}
			seen := map[int]int{}
			base := n*n*n*n + 15
			for _, j := range b.retrying("q") {
				wait := j.RunAt.Std().Sub(j.Since.Std())
				k := int(wait/time.Second) - base
				if wait%time.Second != 0 || k%(n+1) != 0 || k < 0 || k > 29*(n+1) {
					t.Fatalf("failure %d: a back-off of %v", n, wait)
				}
				seen[k/(n+1)]++
			}
			// With 600 draws of 30, one that never comes, or comes 50 times, is no chance.
			for k := range 30 {
				if seen[k] == 0 || seen[k] > 50 {
					t.Errorf("failure %d: the jitter %d came %d times", n, k, seen[k])
				}
			}
			testkit.Advance(t, time.Duration(base+29*(n+1))*time.Second)
		}
	})
}

// TestDeadMax keeps the newest dead jobs only.
func TestDeadMax(t *testing.T) {
	t.Parallel()
	inBubble(t, faktory.Options{DeadMax: 3}, func(t *testing.T, b *bench) {
		t.Helper()
		c := b.client("")
		retry := -1
		var jids []string
		for range 5 {
			j := newJob("q")
			j.Retry = &retry
			jids = append(jids, j.JID)
			must(t, c.Push(j))
			_, err := c.Fetch("q")
			must(t, err)
			must(t, c.Fail(j.JID, "E", "m"))
		}
		same(t, "sets", b.sets(c), map[string]uint64{"dead": 3, "retries": 0, "scheduled": 0, "working": 0})
		must(t, c.OK(`MUTATE {"cmd":"requeue","target":"dead"}`))
		for _, jid := range jids[2:] {
			got, err := c.Fetch("q")
			must(t, err)
			if got.JID != jid {
				t.Errorf("got %s, want %s", got.JID, jid)
			}
		}
	})
}
