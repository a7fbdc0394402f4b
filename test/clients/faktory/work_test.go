package faktory

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	faktory "github.com/contribsys/faktory/client"
)

func testPush(t *testing.T, cl *faktory.Client) {
	job := faktory.NewJob("Resize", 1, "zwei \"2\"", nil, 4.5, true, []any{"nested"}, map[string]any{"k": "v"})
	job.Queue, job.ReserveFor, job.Backtrace = "images", 600, 3
	job.SetCustom("locale", "de").SetCustom("n", 7)
	push(t, cl, job)

	got := fetch(t, cl, "images")
	want, err := json.Marshal(job.Args)
	ok(t, err)
	if args, err := json.Marshal(got.Args); err != nil || string(args) != string(want) {
		t.Errorf("args: %s, want %s", args, want)
	}
	if got.Jid != job.Jid || got.Type != job.Type || got.Queue != "images" || got.Retry == nil || *got.Retry != 25 ||
		got.ReserveFor != 600 || got.Backtrace != 3 || got.CreatedAt != job.CreatedAt || got.At != "" ||
		got.Failure != nil {
		t.Errorf("fetched %+v", got)
	}
	if !reflect.DeepEqual(got.Custom, map[string]any{"locale": "de", "n": 7.0}) {
		t.Errorf("custom: %v", got.Custom)
	}
	if at := instant(t, got.EnqueuedAt); !around(at, -time.Minute, 0) {
		t.Errorf("enqueued at %s", got.EnqueuedAt)
	}
	ok(t, cl.Ack(got.Jid))
	ok(t, cl.Ack(got.Jid)) // nobody holds it any more

	// Nothing left: the server waits about two seconds. A busy machine may add to them.
	start := time.Now()
	if job, err := cl.Fetch("images"); err != nil || job != nil {
		t.Errorf("fetched %+v, %v from nothing", job, err)
	}
	if d := time.Since(start); d < 1900*time.Millisecond || d > 4*time.Second {
		t.Errorf("an empty fetch took %v", d)
	}
	st := state(t, cl)
	if st.Data.TotalProcessed != 1 || st.Data.TotalFailures != 0 {
		t.Errorf("totals: %+v", st.Data)
	}

	// Numbers beyond the precision of floating point are kept.
	line := `{"jid":"precise-1","jobtype":"Sum","args":[12345678901234567890,1.0]}`
	if reply, err := cl.Generic("PUSH " + line); err != nil || reply != "OK" {
		t.Fatalf("push: %q, %v", reply, err)
	}
	reply, err := cl.Generic("FETCH default")
	if err != nil || !strings.Contains(reply, `"args":[12345678901234567890,1.0]`) {
		t.Errorf("fetch: %s, %v", reply, err)
	}
}

func testRefusals(t *testing.T, cl *faktory.Client) {
	short := faktory.NewJob("A")
	short.Jid = "short"
	refused(t, cl.Push(short), "ERR jobs must have a reasonable jid parameter")
	refused(t, cl.Push(faktory.NewJob("", 1)), "ERR jobs must have a jobtype parameter")
	bare := faktory.NewJob("A")
	bare.Args = nil
	refused(t, cl.Push(bare), "ERR jobs must have an args parameter")
	long := faktory.NewJob("A", 1)
	long.ReserveFor = 86401
	refused(t, cl.Push(long), "ERR jobs cannot be reserved for more than one day")
	when := faktory.NewJob("A", 1)
	when.At = "tomorrow"
	refused(t, cl.Push(when), `ERR invalid timestamp for 'at': "tomorrow": `)
	name := faktory.NewJob("A", 1)
	name.Queue = "no blanks"
	refused(t, cl.Push(name), `ERR cannot get "no blanks" queue: queue names must match \A[a-zA-Z0-9._-]+\z`)
	refused(t, cl.Fail("unknown-jid", errors.New("x"), nil), "ERR Job not found unknown-jid")
	_, err := cl.Generic("HELP")
	refused(t, err, "ERR unknown command HELP")
	_, err = cl.Generic(`PUSH {"jid":`)
	refused(t, err, "ERR invalid JSON: ")
	if st := state(t, cl); st.Data.TotalEnqueued != 0 || len(st.Data.Queues) != 0 {
		t.Errorf("refused jobs left something behind: %+v", st.Data)
	}
}

func testBulk(t *testing.T, cl *faktory.Client) {
	var jobs []*faktory.Job
	for i := range 100 {
		jobs = append(jobs, faktory.NewJob("Bulk", i))
	}
	jobs[42].Jid = "bad"
	errs, err := cl.PushBulk(jobs)
	ok(t, err)
	if want := map[string]string{"bad": "jobs must have a reasonable jid parameter"}; !reflect.DeepEqual(errs, want) {
		t.Errorf("refused: %v, want %v", errs, want)
	}
	for i, job := range jobs {
		if i != 42 {
			work(t, cl, job)
		}
	}
	if errs, err = cl.PushBulk([]*faktory.Job{}); err != nil || len(errs) != 0 {
		t.Errorf("an empty bulk: %v, %v", errs, err)
	}
}

func testQueues(t *testing.T, cl *faktory.Client) {
	in := func(queue string) *faktory.Job {
		job := faktory.NewJob("Q", queue)
		job.Queue = queue
		return push(t, cl, job)
	}
	low, high1, high2 := in("low"), in("high"), in("high")
	if sizes, err := cl.QueueSizes(); err != nil || !reflect.DeepEqual(sizes, map[string]uint64{"low": 1, "high": 2}) {
		t.Errorf("sizes: %v, %v", sizes, err)
	}
	reply, err := cl.Generic("QUEUE LATENCY low none")
	ok(t, err)
	var latency map[string]float64
	ok(t, json.Unmarshal([]byte(reply), &latency))
	if latency["low"] <= 0 || latency["low"] > 60 || latency["none"] != 0 || len(latency) != 2 {
		t.Errorf("latency: %s", reply)
	}

	// The queues are emptied in the order of the arguments, the paused ones not.
	ok(t, cl.PauseQueues("high"))
	if got := fetch(t, cl, "high", "low"); got.Jid != low.Jid {
		t.Errorf("fetched %+v past a paused queue, want %s", got, low.Jid)
	}
	ok(t, cl.ResumeQueues("*"))
	low = in("low")
	for _, want := range []*faktory.Job{high1, high2, low} {
		if got := fetch(t, cl, "high", "low"); got.Jid != want.Jid {
			t.Errorf("fetched %s from %s, want %s from %s", got.Jid, got.Queue, want.Jid, want.Queue)
		}
	}
	in("low")
	ok(t, cl.RemoveQueues("low"))
	if sizes, err := cl.QueueSizes(); err != nil || !reflect.DeepEqual(sizes, map[string]uint64{"high": 0}) {
		t.Errorf("sizes: %v, %v", sizes, err)
	}
}

func testFail(t *testing.T, cl *faktory.Client) {
	job := push(t, cl, faktory.NewJob("Fragile", 1))
	fetch(t, cl, "default")
	ok(t, cl.Fail(job.Jid, errors.New("  the first time "), debug.Stack()))
	sets(t, cl, 0, 1, 0)
	refused(t, cl.Fail(job.Jid, errors.New("again"), nil), "ERR Job not found "+job.Jid)

	// The first retry comes after 15 to 44 seconds, unless somebody hurries it.
	ok(t, cl.Requeue(faktory.Retries, faktory.WithJids(job.Jid)))
	sets(t, cl, 0, 0, 0)
	got := fetch(t, cl, "default")
	f := got.Failure
	if got.Jid != job.Jid || f == nil {
		t.Fatalf("the retry: %+v", got)
	}
	if f.RetryCount != 0 || f.RetryRemaining != 25 || f.ErrorMessage != "the first time" || f.ErrorType != "unknown" ||
		len(f.Backtrace) == 0 || len(f.Backtrace) > 50 {
		t.Errorf("failure: %+v", f)
	}
	failedAt := f.FailedAt
	if d := instant(t, f.NextAt).Sub(instant(t, failedAt)); d < 15*time.Second || d > 45*time.Second {
		t.Errorf("the first retry after %v", d)
	}
	ok(t, cl.Fail(job.Jid, errors.New(strings.Repeat("ü", 600)), nil))
	ok(t, cl.Requeue(faktory.Retries, faktory.Everything))
	f = fetch(t, cl, "default").Failure
	if f == nil || f.RetryCount != 1 || f.RetryRemaining != 24 || f.FailedAt != failedAt ||
		f.ErrorMessage != strings.Repeat("ü", 500) || len(f.Backtrace) != 0 {
		t.Errorf("the second failure: %+v", f)
	}
	ok(t, cl.Ack(job.Jid))
	if st := state(t, cl); st.Data.TotalFailures != 2 || st.Data.TotalProcessed != 3 {
		t.Errorf("totals: %+v", st.Data)
	}
}

func testLastFailure(t *testing.T, cl *faktory.Client) {
	for i, retry := range []int{faktory.RetryPolicyEmphemeral, faktory.RetryPolicyDirectToMorgue} {
		job := faktory.NewJob("Last", retry)
		job.Retry = &retry
		push(t, cl, job)
		fetch(t, cl, "default")
		ok(t, cl.Fail(job.Jid, errors.New("x"), nil))
		sets(t, cl, 0, 0, uint64(i))
	}
	one := 1
	job := faktory.NewJob("Once", "more")
	job.Retry = &one
	push(t, cl, job)
	fetch(t, cl, "default")
	ok(t, cl.Fail(job.Jid, errors.New("x"), nil))
	sets(t, cl, 0, 1, 1)
	ok(t, cl.Requeue(faktory.Retries, faktory.OfType("Once")))
	fetch(t, cl, "default")
	ok(t, cl.Fail(job.Jid, errors.New("y"), nil))
	sets(t, cl, 0, 0, 2)
	ok(t, cl.Requeue(faktory.Dead, faktory.OfType("Once")))
	work(t, cl, job)
	sets(t, cl, 0, 0, 1)
}

func testScheduled(t *testing.T, cl *faktory.Client) {
	at := time.Now().Add(1500 * time.Millisecond)
	job := faktory.NewJob("Later", 1)
	job.At = at.Format(time.RFC3339Nano)
	push(t, cl, job)
	past := faktory.NewJob("Past", 1)
	past.At = at.Add(-time.Hour).Format(time.RFC3339Nano)
	push(t, cl, past)
	sets(t, cl, 1, 0, 0)
	work(t, cl, past)
	got := fetch(t, cl, "default") // waits for it
	if got.Jid != job.Jid || got.At != job.At || time.Now().Before(at) || instant(t, got.EnqueuedAt).Before(at) {
		t.Errorf("fetched %v before its time: %+v", time.Until(at), got)
	}
	sets(t, cl, 0, 0, 0)
}

func testMutate(t *testing.T, cl *faktory.Client) {
	later := time.Now().Add(time.Hour).Format(time.RFC3339)
	var jobs []*faktory.Job
	for i := range 6 {
		job := faktory.NewJob(fmt.Sprintf("Type%d", i%2), fmt.Sprintf("uid:%d", i))
		job.At = later
		jobs = append(jobs, push(t, cl, job))
	}
	sets(t, cl, 6, 0, 0)
	ok(t, cl.Discard(faktory.Scheduled, faktory.OfType("Type0").Matching("*uid:2*")))
	sets(t, cl, 5, 0, 0)
	ok(t, cl.Discard(faktory.Scheduled, faktory.OfType("Type1").Matching("*uid:4*"))) // of another type
	ok(t, cl.Discard(faktory.Scheduled, faktory.Matching("uid:4")))                   // not all of the job
	sets(t, cl, 5, 0, 0)
	ok(t, cl.Kill(faktory.Scheduled, faktory.WithJids(jobs[0].Jid, jobs[1].Jid, "unknown-jid")))
	sets(t, cl, 3, 0, 2)
	ok(t, cl.Requeue(faktory.Scheduled, faktory.Matching(`*"jobtype":"Type1"*`)))
	sets(t, cl, 1, 0, 2)
	work(t, cl, jobs[3])
	work(t, cl, jobs[5])
	ok(t, cl.Requeue(faktory.Dead, faktory.WithJids(jobs[1].Jid)))
	work(t, cl, jobs[1])
	ok(t, cl.Clear(faktory.Scheduled))
	sets(t, cl, 0, 0, 1)
	ok(t, cl.Discard(faktory.Dead, faktory.Everything))
	sets(t, cl, 0, 0, 0)
	_, err := cl.Generic(`MUTATE {"cmd":"juggle","target":"dead"}`)
	refused(t, err, "ERR unknown mutate operation")
	_, err = cl.Generic(`MUTATE {"cmd":"clear","target":"moon"}`)
	refused(t, err, "ERR invalid target for mutation command")
}

func testInfo(t *testing.T, cl *faktory.Client) {
	for range 3 {
		push(t, cl, faktory.NewJob("Info", 1))
	}
	other := faktory.NewJob("Info", 2)
	other.Queue = "other"
	push(t, cl, other)
	fetch(t, cl, "other")
	st := state(t, cl)
	if d := st.Data; d.TotalEnqueued != 3 || d.TotalQueues != 2 || d.Queues["default"] != 3 || d.Queues["other"] != 0 ||
		d.Sets["working"] != 1 || d.TotalProcessed != 0 {
		t.Errorf("data: %+v", d)
	}
	for _, task := range []string{"Busy", "Dead", "Retries", "Scheduled", "Workers"} {
		if _, ok := st.Data.Tasks[task]["size"]; !ok {
			t.Errorf("tasks: %v has no size of %s", st.Data.Tasks, task)
		}
	}
	if !around(instant(t, st.Now), -time.Minute, time.Second) {
		t.Errorf("now: %s", st.Now)
	}
	if _, err := time.Parse("15:04:05 UTC", st.ServerUtcTime); err != nil {
		t.Errorf("server time: %v", err)
	}
	if s := st.Server; s.Version != "1.10.0" || s.Connections != 1 || s.CommandCount < 5 ||
		!strings.HasPrefix(s.Description, "Faktory") {
		t.Errorf("server: %+v", s)
	}
	untyped, err := cl.Info()
	if err != nil || untyped["server_utc_time"] == nil {
		t.Errorf("info: %v, %v", untyped, err)
	}
	ok(t, cl.Flush())
	if d := state(t, cl).Data; d.TotalEnqueued != 0 || len(d.Queues) != 0 || d.Sets["working"] != 0 {
		t.Errorf("after a flush: %+v", d)
	}
}
