package faktory_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/dialect/dialecttest"
	"millrace/internal/dialect/faktory"
	"millrace/internal/dialect/faktory/faktorytest"
	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/testkit"
)

// bench is a server in a bubble with one listener.
type bench struct {
	*dialecttest.Server
	t *testing.T
	d *faktory.Dialect
	l *testkit.Listener
}

// inBubble runs f with a server in a bubble.
func inBubble(t *testing.T, o faktory.Options, f func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := dialecttest.Start(t)
		defer s.Stop(t)
		o.Engine = s.Engine
		d := faktory.New(o)
		f(t, &bench{Server: s, t: t, d: d, l: s.Serve(d, 8<<20)})
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (b *bench) dial() *testkit.Conn {
	b.t.Helper()
	c, err := b.l.Dial()
	must(b.t, err)
	return c
}

func (b *bench) client(wid string) *faktorytest.Client {
	b.t.Helper()
	c, err := faktorytest.New(b.dial(), wid)
	must(b.t, err)
	return c
}

func newJob(queue string) faktorytest.Job {
	return faktorytest.Job{JID: faktorytest.NewJID(), Type: "task", Queue: queue, Args: json.RawMessage(`[]`)}
}

// retrying returns the jobs of a queue that wait for their back-off.
func (b *bench) retrying(queue string) []job.Job {
	b.t.Helper()
	p, err := b.Engine.List(engine.ListOptions{Namespace: "default", Queue: queue, State: job.Retrying, Limit: 100000})
	must(b.t, err)
	return p.Jobs
}

// leased returns the jobs of a queue that are held.
func (b *bench) leased(queue string) []job.Job {
	b.t.Helper()
	p, err := b.Engine.List(engine.ListOptions{Namespace: "default", Queue: queue, State: job.Leased})
	must(b.t, err)
	return p.Jobs
}

// sets returns the sets of INFO.
func (b *bench) sets(c *faktorytest.Client) map[string]uint64 {
	b.t.Helper()
	info, err := c.Info()
	must(b.t, err)
	return info.Faktory.Sets
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	g, err := json.Marshal(got)
	must(t, err)
	w, err := json.Marshal(want)
	must(t, err)
	if string(g) != string(w) {
		t.Errorf("%s is %s, want %s", what, g, w)
	}
}

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
			must(t, c.OK(fmt.Sprintf(`FAIL {"jid":%q,"errtype":" Boom ","message":"number %d\n","backtrace":["one","two"]}`, j.JID, n)))
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
			{`{"jid":"00000001","errtype":"  ","message":"\t\n","backtrace":null}`, faktorytest.Failure{ErrType: "unknown", Message: "unknown"}},
			{
				// Cut at a character: the hundredth byte is the middle of one.
				`{"jid":"00000001","errtype":" x` + strings.Repeat("ä", 60) + `","message":"` + strings.Repeat("m", 1001) + `"}`,
				faktorytest.Failure{ErrType: "x" + strings.Repeat("ä", 49), Message: strings.Repeat("m", 1000)},
			},
			{
				`{"jid":"00000001","backtrace":["` + strings.Join(lines, `","`) + `"]}`,
				faktorytest.Failure{ErrType: "unknown", Message: "unknown", Backtrace: slices.Concat(lines[:3], []string{strings.Repeat("ä", 500)}, lines[4:50])},
			},
		} {
			must(t, c.Push(faktorytest.Job{JID: "00000001", Type: "task", Args: json.RawMessage(`[]`)}))
			_, err := c.Fetch("default")
			must(t, err)
			must(t, c.OK("FAIL "+test.fail))
			must(t, c.OK(`MUTATE {"cmd":"requeue","target":"retries"}`))
			got, err := c.Fetch("default")
			must(t, err)
			same(t, "failure", faktorytest.Failure{ErrType: got.Failure.ErrType, Message: got.Failure.Message, Backtrace: got.Failure.Backtrace}, test.want)
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
		if f := got.Failure; f == nil || f.ErrType != "ReservationExpired" || f.Message != "Faktory job reservation expired" || f.Backtrace != nil || f.Remaining != 25 {
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
		for retry, want := range map[int]string{0: "", -1: "dead", -7: "dead", 1: "retries", 25: "retries", 1 << 40: "retries"} {
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

// TestForeignJobs shows and settles jobs that came through other doors.
func TestForeignJobs(t *testing.T) {
	t.Parallel()
	inBubble(t, faktory.Options{}, func(t *testing.T, b *bench) {
		t.Helper()
		caller := b.Engine.NewCaller()
		push := func(spec job.Spec) job.ID {
			t.Helper()
			spec.Namespace, spec.Queue, spec.Origin = "default", "q", dialect.DoorAdmin
			res := caller.Do(t.Context(), &job.Push{Spec: spec})
			if res[0].Err != nil {
				t.Fatal(res[0].Err)
			}
			return res[0].ID
		}
		const uuid = "6ba7b810-9dad-11d1-80b4-00c04fd430c4"
		policy := job.Policy{MaxFails: 7, Lease: 90 * time.Second}
		plain := push(job.Spec{Body: []byte(" {\"a\":\r\n1}"), BodyKind: job.BodyJSON, Policy: policy, Extra: []byte("\xff{opaque")})
		push(job.Spec{Key: uuid, Type: "t", Body: []byte(`[1,2]`), BodyKind: job.BodyArgs, Policy: job.Policy{MaxAttempts: 4}})
		short := push(job.Spec{Key: "short", Body: []byte("\x00raw"), BodyKind: job.BodyBytes})
		posing := push(job.Spec{Key: "millrace-1", Body: []byte("12"), BodyKind: job.BodyBytes})
		pack := push(job.Spec{Body: []byte{0x91, 0x01}, BodyKind: job.BodyMsgpack})
		none := push(job.Spec{})
		number := func(id job.ID) string { return fmt.Sprint("millrace-", id) }
		at := `"created_at":"2000-01-01T00:00:00Z","enqueued_at":"2000-01-01T00:00:00Z"`
		c := b.client("")
		for _, want := range []string{
			`{"jid":"` + number(plain) + `","queue":"q","jobtype":"job","args":[{"a":1}],` + at + `,"retry":6,"reserve_for":90}`,
			`{"jid":"` + uuid + `","queue":"q","jobtype":"t","args":[1,2],` + at + `,"retry":3,"reserve_for":1800}`,
			`{"jid":"` + number(short) + `","queue":"q","jobtype":"job","args":["AHJhdw=="],` + at + `,"retry":25,"reserve_for":1800,"custom":{"_encoding":"base64"}}`,
			`{"jid":"` + number(posing) + `","queue":"q","jobtype":"job","args":[12],` + at + `,"retry":25,"reserve_for":1800}`,
			`{"jid":"` + number(pack) + `","queue":"q","jobtype":"job","args":["kQE="],` + at + `,"retry":25,"reserve_for":1800,"custom":{"_encoding":"base64 msgpack"}}`,
			`{"jid":"` + number(none) + `","queue":"q","jobtype":"job","args":[],` + at + `,"retry":25,"reserve_for":1800}`,
		} {
			got, err := c.Call("FETCH q")
			if err != nil || got != want {
				t.Errorf("fetched %s, %v\nwant %s", got, err, want)
			}
		}
		must(t, c.OK(`ACK {"jid":"`+number(plain)+`"}`))
		must(t, c.OK(`FAIL {"jid":"`+number(posing)+`"}`))
		must(t, c.OK(`ACK {"jid":"`+uuid+`"}`))
		if err := c.OK(`FAIL {"jid":"` + number(plain) + `"}`); err == nil || err.Error() != "ERR Job not found "+number(plain) {
			t.Errorf("a job that is gone: %v", err)
		}
		// A jid that means a number cannot be pushed.
		if err := c.Push(faktorytest.Job{JID: "millrace-7", Type: "t", Args: json.RawMessage(`[]`)}); err == nil || err.Error() != "ERR jobs must have a reasonable jid parameter" {
			t.Errorf("push of a number: %v", err)
		}
		// What a connection of another protocol holds for itself is that one's.
		id := push(job.Spec{Key: "exclusive"})
		holder := b.Engine.NewHolder()
		b.fetchAs(caller, holder, id)
		if err := c.OK(`ACK {"jid":"exclusive"}`); err == nil || err.Error() != "ERR job is held by a worker of another protocol" {
			t.Errorf("ack of a held job: %v", err)
		}
	})
}

func (b *bench) fetchAs(caller *engine.Caller, holder job.Holder, want job.ID) {
	b.t.Helper()
	for {
		res := caller.Do(b.t.Context(), &job.Fetch{Namespace: "default", Queues: []string{"q"}, Max: 1, Holder: holder, Exclusive: true, OnEnd: job.EndRelease})
		if res[0].Err != nil {
			b.t.Fatal(res[0].Err)
		}
		if res[0].Jobs[0].ID == want {
			return
		}
	}
}

// TestPipeline sends 500 commands at once and counts writes and commits.
func TestPipeline(t *testing.T) {
	t.Parallel()
	inBubble(t, faktory.Options{}, func(t *testing.T, b *bench) {
		t.Helper()
		conn := b.dial()
		c, err := faktorytest.New(conn, "")
		must(t, err)
		var all strings.Builder
		for i := range 500 {
			switch i % 5 {
			case 0, 1, 2:
				fmt.Fprintf(&all, "PUSH {\"jid\":\"job%06d\",\"jobtype\":\"x\",\"args\":[%d]}\r\n", i, i)
			case 3:
				fmt.Fprintf(&all, "PUSHB [{\"jid\":\"job%06d\",\"jobtype\":\"x\",\"args\":[]}]\n", i)
			default:
				all.WriteString("ACK {\"jid\":\"whatever\"}\n")
			}
		}
		writes, _ := conn.Received()
		commits := b.Engine.Stats().Commits
		_, err = io.WriteString(conn, all.String())
		must(t, err)
		for i := range 500 {
			text, err := c.Receive()
			if want := map[bool]string{true: "{}", false: "OK"}[i%5 == 3]; err != nil || text != want {
				t.Fatalf("reply %d: %q, %v", i, text, err)
			}
		}
		if after, _ := conn.Received(); after-writes > 8 {
			t.Errorf("%d writes for 500 pipelined commands", after-writes)
		}
		if n := b.Engine.Stats().Commits - commits; n > 8 {
			t.Errorf("%d commits for 500 pipelined commands", n)
		}
		same(t, "queues", b.Queue(t, "default", "default").Counts[job.Ready], 400)
	})
}

// TestLargePayload moves 5 MB through PUSH, PUSHB and FETCH.
func TestLargePayload(t *testing.T) {
	t.Parallel()
	inBubble(t, faktory.Options{}, func(t *testing.T, b *bench) {
		t.Helper()
		conn := b.dial()
		c, err := faktorytest.New(conn, "")
		must(t, err)
		args := json.RawMessage(`["` + strings.Repeat(`ä\n9`, 1<<20) + `"]`)
		one, two := newJob("q"), newJob("q")
		one.Args, two.Args = args, args
		must(t, c.Push(one))
		refused, err := c.PushBulk([]faktorytest.Job{two})
		if err != nil || len(refused) > 0 {
			t.Fatalf("bulk: %v, %v", refused, err)
		}
		before, _ := conn.Received()
		for range 2 {
			got, err := c.Fetch("q")
			if err != nil || string(got.Args) != string(args) {
				t.Fatalf("fetched %d bytes, %v", len(got.Args), err)
			}
			must(t, c.Ack(got.JID))
		}
		if after, _ := conn.Received(); after-before != 4 {
			t.Errorf("%d writes for 4 replies", after-before)
		}
	})
}

// TestLargeBulk pushes more jobs with one PUSHB than are stored at a time.
func TestLargeBulk(t *testing.T) {
	t.Parallel()
	inBubble(t, faktory.Options{}, func(t *testing.T, b *bench) {
		t.Helper()
		c := b.client("")
		const jobs = 10000
		var all strings.Builder
		for i := range jobs {
			jid := fmt.Sprintf("job%06d", i)
			if i%1000 == 999 {
				jid = fmt.Sprint("bad", i%3)
			}
			fmt.Fprintf(&all, ",{\"jid\":%q,\"jobtype\":\"x\",\"args\":[%d],\"custom\":{\"i\":%d}}", jid, i, i)
		}
		text, err := c.Call("PUSHB [" + all.String()[1:] + "]")
		must(t, err)
		var refused map[string]string
		must(t, json.Unmarshal([]byte(text), &refused))
		same(t, "refused", refused, map[string]string{
			"bad0": "jobs must have a reasonable jid parameter", "bad1": "jobs must have a reasonable jid parameter", "bad2": "jobs must have a reasonable jid parameter",
		})
		for i := range jobs {
			if i%1000 == 999 {
				continue
			}
			got, err := c.Fetch("default")
			if err != nil || got.JID != fmt.Sprintf("job%06d", i) || string(got.Args) != fmt.Sprintf("[%d]", i) || string(got.Custom) != fmt.Sprintf(`{"i":%d}`, i) {
				t.Fatalf("fetch %d: %+v, %v", i, got, err)
			}
		}
		// One that is not a job at the very end refuses them all.
		if _, err := c.Call("PUSHB [" + all.String()[1:] + ",7]"); err == nil || err.Error() != "ERR invalid JSON: not a JSON object" {
			t.Errorf("bad bulk: %v", err)
		}
		if _, err := c.Call("PUSHB [" + all.String()[1:]); err == nil || err.Error() != "ERR invalid JSON: not a JSON array" {
			t.Errorf("broken bulk: %v", err)
		}
		same(t, "ready", b.Queue(t, "default", "default").Counts[job.Ready], 0)
	})
}

// TestNamespaces keeps listeners of different namespaces apart.
func TestNamespaces(t *testing.T) {
	t.Parallel()
	inBubble(t, faktory.Options{Namespace: "one"}, func(t *testing.T, b *bench) {
		t.Helper()
		other := b.Serve(faktory.New(faktory.Options{Engine: b.Engine, Namespace: "two"}), 0)
		conn, err := other.Dial()
		must(t, err)
		far, err := faktorytest.New(conn, "")
		must(t, err)
		near := b.client("")
		must(t, near.Push(newJob("q")))
		must(t, far.OK("FLUSH"))
		if _, err := far.Fetch("q"); !errors.Is(err, faktorytest.ErrEmpty) {
			t.Errorf("fetched through the other namespace: %v", err)
		}
		if _, err := near.Fetch("q"); err != nil {
			t.Errorf("fetch: %v", err)
		}
	})
}
