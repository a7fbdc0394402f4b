package faktory

import (
	"errors"
	"strings"
	"testing"
	"time"

	faktory "github.com/contribsys/faktory/client"
)

func testUnique(t *testing.T, cl *faktory.Client) {
	single := func(until faktory.UniqueUntil) *faktory.Job {
		return faktory.NewJob("Single", "args").SetUniqueFor(60).SetUniqueness(until)
	}
	first := push(t, cl, single(faktory.UntilSuccess))
	refused(t, cl.Push(single(faktory.UntilSuccess)), "NOTUNIQUE Job not unique")
	second := single(faktory.UntilSuccess)
	errs, err := cl.PushBulk([]*faktory.Job{second})
	if err != nil || errs[second.Jid] != "NOTUNIQUE Job not unique" {
		t.Errorf("bulk: %v, %v", errs, err)
	}
	push(t, cl, faktory.NewJob("Single", "other args").SetUniqueFor(60))
	push(t, cl, faktory.NewJob("Single", "args")) // does not ask to be
	fetch(t, cl, "default")
	refused(t, cl.Push(second), "NOTUNIQUE Job not unique")
	ok(t, cl.Ack(first.Jid))
	push(t, cl, second)
	ok(t, cl.Flush())

	push(t, cl, single(faktory.UntilStart))
	refused(t, cl.Push(single(faktory.UntilStart)), "NOTUNIQUE Job not unique")
	fetch(t, cl, "default")
	push(t, cl, single(faktory.UntilStart))
}

func testExpiring(t *testing.T, cl *faktory.Client) {
	push(t, cl, faktory.NewJob("Stale", 1).SetExpiresAt(time.Now().Add(-time.Second)))
	fresh := push(t, cl, faktory.NewJob("Fresh", 1).SetExpiresIn(time.Hour))
	work(t, cl, fresh)
}

// tracked checks what the server tells about a job.
func tracked(t *testing.T, cl *faktory.Client, jid string, want faktory.JobTrack) {
	t.Helper()
	got, err := cl.TrackGet(jid)
	ok(t, err)
	if want.State != "unknown" && !around(instant(t, got.UpdatedAt), -time.Minute, time.Second) {
		t.Errorf("updated at %s", got.UpdatedAt)
	}
	want.Jid, want.UpdatedAt = jid, got.UpdatedAt
	if *got != want {
		t.Errorf("track: %+v, want %+v", got, want)
	}
}

func testTracking(t *testing.T, cl *faktory.Client) {
	job := push(t, cl, faktory.NewJob("Tracked", 1).SetCustom("track", 1))
	tracked(t, cl, job.Jid, faktory.JobTrack{State: "enqueued"})
	fetch(t, cl, "default")
	tracked(t, cl, job.Jid, faktory.JobTrack{State: "working"})
	until := time.Now().Add(time.Hour)
	ok(t, cl.TrackSet(job.Jid, 33, "calculating", &until))
	tracked(t, cl, job.Jid, faktory.JobTrack{State: "working", Percent: 33, Description: "calculating"})
	ok(t, cl.Fail(job.Jid, errors.New("x"), nil))
	tracked(t, cl, job.Jid, faktory.JobTrack{State: "failed", Percent: 33, Description: "calculating"})
	ok(t, cl.Kill(faktory.Retries, faktory.Everything))
	tracked(t, cl, job.Jid, faktory.JobTrack{State: "dead", Percent: 33, Description: "calculating"})
	ok(t, cl.Requeue(faktory.Dead, faktory.Everything))
	work(t, cl, job)
	ok(t, cl.TrackSet(job.Jid, 100, "", nil))
	tracked(t, cl, job.Jid, faktory.JobTrack{State: "success", Percent: 100, Description: "calculating"})

	plain := push(t, cl, faktory.NewJob("Untracked", 1))
	tracked(t, cl, plain.Jid, faktory.JobTrack{State: "unknown"})
}

// status checks the figures and the two states of a batch.
func status(t *testing.T, cl *faktory.Client, bid string, total, pending, failed int64, complete, success string) {
	t.Helper()
	got, err := cl.BatchStatus(bid)
	ok(t, err)
	if got.Bid != bid || got.Total != total || got.Pending != pending || got.Failed != failed ||
		got.CompleteState != complete || got.SuccessState != success {
		t.Fatalf("status: %+v, want total %d, pending %d, failed %d, complete %q, success %q", got, total, pending,
			failed, complete, success)
	}
}

// newBatch makes a batch with both callbacks, on a queue of their own.
func newBatch(cl *faktory.Client) *faktory.Batch {
	b := faktory.NewBatch(cl)
	b.Description = "two jobs"
	b.Success, b.Complete = faktory.NewJob("Success", 1), faktory.NewJob("Complete", 2)
	b.Success.Queue, b.Complete.Queue = "callbacks", "callbacks"
	return b
}

// callback takes the callback of a batch that must be due and acknowledges it.
func callback(t *testing.T, cl *faktory.Client, bid, jobtype string) {
	t.Helper()
	job := fetch(t, cl, "callbacks")
	if job.Type != jobtype || job.Custom["_bid"] != bid || job.Custom["bid"] != nil {
		t.Fatalf("callback: %+v, want %s of %s", job, jobtype, bid)
	}
	ok(t, cl.Ack(job.Jid))
}

func testBatch(t *testing.T, cl *faktory.Client) {
	b := newBatch(cl)
	first, second, third := faktory.NewJob("Part", 1), faktory.NewJob("Part", 2), faktory.NewJob("Part", 3)
	ok(t, b.Jobs(func() error {
		if err := b.Push(first); err != nil {
			return err
		}
		_, err := b.PushBulk([]*faktory.Job{second})
		return err
	}))
	if !strings.HasPrefix(b.Bid, "b-") {
		t.Errorf("bid %q", b.Bid)
	}
	st, err := cl.BatchStatus(b.Bid)
	ok(t, err)
	if st.Description != "two jobs" || st.ParentBid != "" ||
		!around(instant(t, st.CreatedAt), -time.Minute, time.Second) {
		t.Errorf("status: %+v", st)
	}
	status(t, cl, b.Bid, 2, 2, 0, "", "")
	work(t, cl, first)
	status(t, cl, b.Bid, 2, 1, 0, "", "")

	// More jobs may join while the batch runs.
	again, err := cl.BatchOpen(b.Bid)
	ok(t, err)
	ok(t, again.Push(third))
	ok(t, again.Commit())
	status(t, cl, b.Bid, 3, 2, 0, "", "")
	work(t, cl, second)
	work(t, cl, third)
	status(t, cl, b.Bid, 3, 0, 0, "1", "")
	callback(t, cl, b.Bid, "Complete")
	status(t, cl, b.Bid, 3, 0, 0, "2", "1")
	callback(t, cl, b.Bid, "Success")
	status(t, cl, b.Bid, 3, 0, 0, "2", "2")

	_, err = cl.BatchStatus("b-nowhere")
	refused(t, err, "ERR No such batch b-nowhere")
	_, err = cl.BatchOpen("b-nowhere")
	refused(t, err, "ERR No such batch b-nowhere")
	refused(t, cl.BatchCommit("b-nowhere"), "ERR No such batch b-nowhere")
	_, err = cl.BatchNew(faktory.NewBatch(cl)) // without a callback
	refused(t, err, "ERR ")
}

func testBatchFailure(t *testing.T, cl *faktory.Client) {
	b := newBatch(cl)
	good, bad := faktory.NewJob("Part", 1), faktory.NewJob("Part", 2)
	ok(t, b.Jobs(func() error { return errors.Join(b.Push(good), b.Push(bad)) }))
	work(t, cl, good)
	fetch(t, cl, "default")
	ok(t, cl.Fail(bad.Jid, errors.New("x"), nil))
	// Every job has run once: complete. One has not succeeded: no success.
	status(t, cl, b.Bid, 2, 1, 1, "1", "")
	callback(t, cl, b.Bid, "Complete")
	status(t, cl, b.Bid, 2, 1, 1, "2", "")
	ok(t, cl.Requeue(faktory.Retries, faktory.Everything))
	work(t, cl, bad)
	status(t, cl, b.Bid, 2, 0, 0, "2", "1")
	callback(t, cl, b.Bid, "Success")
}

func testNestedBatch(t *testing.T, cl *faktory.Client) {
	parent, child := newBatch(cl), newBatch(cl)
	parent.Complete, child.Complete = nil, nil
	job, part := faktory.NewJob("Outer", 1), faktory.NewJob("Inner", 1)
	ok(t, parent.Jobs(func() error {
		child.ParentBid = parent.Bid
		return errors.Join(parent.Push(job), child.Jobs(func() error { return child.Push(part) }))
	}))
	if st, err := cl.BatchStatus(child.Bid); err != nil || st.ParentBid != parent.Bid {
		t.Errorf("status of the child: %+v, %v", st, err)
	}
	// The parent succeeds once the child's callback has, too.
	work(t, cl, job)
	success(t, cl, parent.Bid, "")
	work(t, cl, part)
	success(t, cl, parent.Bid, "")
	success(t, cl, child.Bid, "1")
	callback(t, cl, child.Bid, "Success")
	success(t, cl, parent.Bid, "1")
	callback(t, cl, parent.Bid, "Success")
	success(t, cl, parent.Bid, "2")
}

// success checks the success of a batch of one job that has no other callback.
func success(t *testing.T, cl *faktory.Client, bid, want string) {
	t.Helper()
	if st, err := cl.BatchStatus(bid); err != nil || st.SuccessState != want || st.Total != 1 || st.Failed != 0 {
		t.Errorf("status: %+v, %v, want success %q", st, err, want)
	}
}
