package engine_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/store/memstore"
	"millrace/internal/testkit"
)

// delivered is a fetch of some jobs whose answer is followed.
func delivered(d *job.Delivery, n int) *job.Fetch {
	f := fetch("q", 0)
	f.Max, f.Delivery = n, d
	return f
}

// inDelivery runs a test with an engine that has two jobs with leases of a second. With little memory one of them is
// not in it while it is leased.
func inDelivery(t *testing.T, test func(t *testing.T, e *engine.Engine)) {
	t.Helper()
	for _, resident := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			e, err := engine.Open(engine.Options{
				Store: memstore.New(), Durability: engine.DurabilityNone, Core: engine.CoreOptions{Resident: resident},
			})
			if err != nil {
				t.Fatal(err)
			}
			spec := job.Spec{Namespace: "ns", Queue: "q", Policy: job.Policy{Lease: time.Second}}
			do(t, e, &job.Push{Spec: spec}, &job.Push{Spec: spec}).wants(t)
			test(t, e)
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A lease whose time is up while its answer is on its way ends when that has been handed over, and not before.
func TestLeaseWaitsForDelivery(t *testing.T) {
	t.Parallel()
	inDelivery(t, func(t *testing.T, e *engine.Engine) {
		t.Helper()
		d := new(job.Delivery)
		do(t, e, delivered(d, 2)).wantsJobs(t, 1, 2)
		testkit.Advance(t, 3*time.Second)
		do(t, e, fetch("q", 0)).wants(t, job.Timeout)
		next := do(t, e, fetch("q", time.Minute))
		next.wantsNothing(t)
		if got := counts(t, e, "q", job.Leased, job.Ready); !slices.Equal(got, []uint64{2, 0}) {
			t.Errorf("%v are leased and ready", got)
		}
		e.Sent(d)
		synctest.Wait()
		next.wantsJobs(t, 1)
		do(t, e, fetch("q", 0)).wantsJobs(t, 2)
		if info, _, err := e.Queue("ns", "q"); err != nil || info.Totals[job.CountLapsed] != 2 {
			t.Errorf("%d have lapsed, %v", info.Totals[job.CountLapsed], err)
		}
	})
}

// Once the answer has been handed over a lease ends at its time, and a command that comes at that very moment finds it
// ended.
func TestDeliveryInTime(t *testing.T) {
	t.Parallel()
	inDelivery(t, func(t *testing.T, e *engine.Engine) {
		t.Helper()
		d := new(job.Delivery)
		do(t, e, delivered(d, 2)).wantsJobs(t, 1, 2)
		e.Sent(d)
		<-time.After(time.Second) // the command may come before the clock
		do(t, e, ack(1), ack(2)).wants(t, job.NotLeased, job.NotLeased)
		do(t, e, delivered(d, 2)).wantsJobs(t, 1, 2) // the same again, for which the old leases must not count
		testkit.Advance(t, 2*time.Second)
		if got := counts(t, e, "q", job.Leased); got[0] != 2 {
			t.Errorf("%d are leased", got[0])
		}
		e.Sent(d)
		e.Sent(d)
		synctest.Wait()
		do(t, e, fetch("q", 0), fetch("q", 0)).wants(t)
	})
}

// What ends a lease otherwise does so while its answer is on its way, and what its time has come for meanwhile is not
// lost.
func TestSettledBeforeDelivery(t *testing.T) {
	t.Parallel()
	inDelivery(t, func(t *testing.T, e *engine.Engine) {
		t.Helper()
		d := new(job.Delivery)
		expiring := job.Spec{Namespace: "ns", Queue: "q", TTL: time.Second, Policy: job.Policy{Lease: time.Second}}
		do(t, e, &job.Push{Spec: expiring}, delivered(d, 3)).wants(t)
		testkit.Advance(t, 2*time.Second)
		do(t, e, ack(1), &job.Release{Ref: job.ByPlace("ns", 1, 2), Need: job.NeedLeased, Place: job.PlaceOld}).wants(t)
		do(t, e, &job.Release{Ref: job.ByPlace("ns", 1, 3), Need: job.NeedLeased, Place: job.PlaceOld}).wants(t)
		synctest.Wait()
		info, _, err := e.Queue("ns", "q")
		if err != nil || info.Counts[job.Ready] != 1 || info.Total() != 1 || info.Totals[job.CountLapsed] != 0 ||
			info.Totals[job.CountExpired] != 1 {
			t.Errorf("%+v, %v", info, err)
		}
		e.Sent(d)
		synctest.Wait()
		do(t, e, fetch("q", 0)).wantsJobs(t, 2)
	})
}

// Whoever waits for a job is followed from when the job comes, not from when the wait began.
func TestDeliveryOfWaiter(t *testing.T) {
	t.Parallel()
	inDelivery(t, func(t *testing.T, e *engine.Engine) {
		t.Helper()
		d := new(job.Delivery)
		do(t, e, delivered(d, 2)).wantsJobs(t, 1, 2)
		e.Sent(d)
		again := delivered(d, 1)
		again.Wait = time.Minute
		waiting := do(t, e, again)
		waiting.wantsNothing(t)
		testkit.Advance(t, time.Second) // the first leases end although the same delivery waits
		waiting.wants(t)
		other := do(t, e, fetch("q", 0))
		other.wants(t)
		testkit.Advance(t, time.Second)
		do(t, e, fetch("q", 0)).wantsJobs(t, other.jobIDs()[0]) // which is not on its way
		e.Sent(d)
		synctest.Wait()
		do(t, e, fetch("q", 0)).wantsJobs(t, waiting.jobIDs()[0])
	})
}
