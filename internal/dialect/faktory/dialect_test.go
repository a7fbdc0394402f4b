package faktory_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	"millrace/internal/wire"
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
	return faktorytest.Job{JID: wire.NewID(), Type: "task", Queue: queue, Args: json.RawMessage(`[]`)}
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
		plain := push(job.Spec{
			Body: []byte(" {\"a\":\r\n1}"), BodyKind: job.BodyJSON, Policy: policy,
			Extra: []byte("\xff{opaque"),
		})
		push(job.Spec{
			Key: uuid, Type: "t", Body: []byte(`[1,2]`), BodyKind: job.BodyArgs,
			Policy: job.Policy{MaxAttempts: 4},
		})
		short := push(job.Spec{Key: "short", Body: []byte("\x00raw"), BodyKind: job.BodyBytes})
		posing := push(job.Spec{Key: "millrace-1-1", Body: []byte("12"), BodyKind: job.BodyBytes})
		pack := push(job.Spec{Body: []byte{0x91, 0x01}, BodyKind: job.BodyMsgpack})
		none := push(job.Spec{})
		// The queue is the first of the store.
		number := func(id job.ID) string { return fmt.Sprint("millrace-1-", id) }
		at := `"created_at":"2000-01-01T00:00:00Z","enqueued_at":"2000-01-01T00:00:00Z"`
		c := b.client("")
		for _, want := range []string{
			`{"jid":"` + number(plain) + `","queue":"q","jobtype":"job","args":[{"a":1}],` + at +
				`,"retry":6,"reserve_for":90}`,
			`{"jid":"` + uuid + `","queue":"q","jobtype":"t","args":[1,2],` + at + `,"retry":3,"reserve_for":1800}`,
			`{"jid":"` + number(short) + `","queue":"q","jobtype":"job","args":["AHJhdw=="],` + at +
				`,"retry":25,"reserve_for":1800,"custom":{"_encoding":"base64"}}`,
			`{"jid":"` + number(posing) + `","queue":"q","jobtype":"job","args":[12],` + at +
				`,"retry":25,"reserve_for":1800}`,
			`{"jid":"` + number(pack) + `","queue":"q","jobtype":"job","args":["kQE="],` + at +
				`,"retry":25,"reserve_for":1800,"custom":{"_encoding":"base64 msgpack"}}`,
			`{"jid":"` + number(none) + `","queue":"q","jobtype":"job","args":[],` + at +
				`,"retry":25,"reserve_for":1800}`,
		} {
			got, err := c.Call("FETCH q")
			if err != nil || got != want {
				t.Errorf("fetched %s, %v\nwant %s", got, err, want)
			}
		}
		must(t, c.OK(`ACK {"jid":"`+number(plain)+`"}`))
		must(t, c.OK(`FAIL {"jid":"`+number(posing)+`"}`))
		must(t, c.OK(`ACK {"jid":"`+uuid+`"}`))
		if err := c.OK(`FAIL {"jid":"` + number(plain) + `"}`); err == nil ||
			err.Error() != "ERR Job not found "+number(plain) {
			t.Errorf("a job that is gone: %v", err)
		}
		// A jid that means a number cannot be pushed.
		if err := c.Push(faktorytest.Job{JID: "millrace-7-7", Type: "t", Args: json.RawMessage(`[]`)}); err == nil ||
			err.Error() != "ERR jobs must have a reasonable jid parameter" {
			t.Errorf("push of a number: %v", err)
		}
		// What a connection of another protocol holds for itself is that one's.
		id := push(job.Spec{Key: "exclusive"})
		holder := b.Engine.NewHolder()
		b.fetchAs(caller, holder, id)
		if err := c.OK(`ACK {"jid":"exclusive"}`); err == nil ||
			err.Error() != "ERR job is held by a worker of another protocol" {
			t.Errorf("ack of a held job: %v", err)
		}
	})
}

func (b *bench) fetchAs(caller *engine.Caller, holder job.Holder, want job.ID) {
	b.t.Helper()
	for {
		res := caller.Do(b.t.Context(), &job.Fetch{
			Namespace: "default", Queues: []string{"q"}, Max: 1, Holder: holder,
			Exclusive: true, OnEnd: job.EndRelease,
		})
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
			text, _, err := c.Receive()
			if want := map[bool]string{true: "{}", false: "OK"}[i%5 == 3]; err != nil || string(text) != want {
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
			"bad0": "jobs must have a reasonable jid parameter", "bad1": "jobs must have a reasonable jid parameter",
			"bad2": "jobs must have a reasonable jid parameter",
		})
		for i := range jobs {
			if i%1000 == 999 {
				continue
			}
			got, err := c.Fetch("default")
			if err != nil || got.JID != fmt.Sprintf("job%06d", i) || string(got.Args) != fmt.Sprintf("[%d]", i) ||
				string(got.Custom) != fmt.Sprintf(`{"i":%d}`, i) {
				t.Fatalf("fetch %d: %+v, %v", i, got, err)
			}
		}
		// One that is not a job at the very end refuses them all.
		if _, err := c.Call("PUSHB [" + all.String()[1:] + ",7]"); err == nil ||
			err.Error() != "ERR invalid JSON: not a JSON object" {
			t.Errorf("bad bulk: %v", err)
		}
		if _, err := c.Call("PUSHB [" + all.String()[1:]); err == nil ||
			err.Error() != "ERR invalid JSON: not a JSON array" {
			t.Errorf("broken bulk: %v", err)
		}
		same(t, "ready", b.Queue(t, "default", "default").Counts[job.Ready], 0)
	})
}

// TestFlushSparesOthers removes the queues that clients of this protocol have pushed to,
// with whatever is in them, and no others.
func TestFlushSparesOthers(t *testing.T) {
	t.Parallel()
	inBubble(t, faktory.Options{}, func(t *testing.T, b *bench) {
		t.Helper()
		caller := b.Engine.NewCaller()
		for _, queue := range []string{"shared", "theirs"} {
			spec := job.Spec{Namespace: "default", Queue: queue, Origin: dialect.DoorMasenko}
			if res := caller.Do(t.Context(), &job.Push{Spec: spec}); res[0].Err != nil {
				t.Fatal(res[0].Err)
			}
		}
		c := b.client("")
		must(t, c.Push(newJob("shared")))
		must(t, c.Push(newJob("ours")))
		must(t, c.OK("FLUSH"))
		info, err := c.Info()
		must(t, err)
		same(t, "queues", info.Faktory.Queues, map[string]uint64{"theirs": 1})
	})
}

// TestShutdown refuses the command behind a FETCH that waits when the server stops.
func TestShutdown(t *testing.T) {
	t.Parallel()
	inBubble(t, faktory.Options{}, func(t *testing.T, b *bench) {
		t.Helper()
		ctx, stop := context.WithCancel(t.Context())
		l := testkit.Listen(0)
		ended := make(chan error, 1)
		go func() { ended <- b.d.Serve(ctx, l) }()
		conn, err := l.Dial()
		must(t, err)
		c, err := faktorytest.New(conn, "")
		must(t, err)
		must(t, c.Send("FETCH q\r\nPUSH {\"jid\":\"12345678\",\"jobtype\":\"x\",\"args\":[]}"))
		synctest.Wait()
		stop()
		synctest.Wait()
		b.Engine.Drain()
		if _, ok, err := c.Receive(); ok || err != nil {
			t.Errorf("the waiting FETCH got %t, %v", ok, err)
		}
		if _, _, err := c.Receive(); err == nil || err.Error() != "ERR shutdown in progress" {
			t.Errorf("the next command got %v", err)
		}
		if _, _, err := c.Receive(); !errors.Is(err, io.EOF) {
			t.Errorf("the connection is open, %v", err)
		}
		_ = conn.Close()
		must(t, <-ended)
		same(t, "pushed", b.Queue(t, "default", "default").Totals[job.CountPushed], 0)
	})
}

// TestNamespaces keeps listeners of different namespaces apart.
func TestNamespaces(t *testing.T) {
	t.Parallel()
	inBubble(t, faktory.Options{Options: dialect.Options{Namespace: "one"}}, func(t *testing.T, b *bench) {
		t.Helper()
		other := b.Serve(faktory.New(faktory.Options{Options: dialect.Options{Engine: b.Engine, Namespace: "two"}}), 0)
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
