package beanstalkd_test

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/dialect/beanstalkd"
	"millrace/internal/dialect/beanstalkd/beanstalkdtest"
	"millrace/internal/dialect/dialecttest"
	"millrace/internal/job"
	"millrace/internal/testkit"
)

// world is a server in a bubble.
type world struct {
	*dialecttest.Server
	t      *testing.T
	d      *beanstalkd.Dialect
	shared *dialect.Shared
	dial   func() net.Conn
}

// bubble runs a test against a server.
func bubble(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := dialecttest.Start(t)
		defer s.Stop(t)
		shared := dialect.NewShared(0, 0)
		w := &world{
			Server: s, t: t, shared: shared,
			d: beanstalkd.New(beanstalkd.Options{Options: dialect.Options{Engine: s.Engine, Shared: shared}}),
		}
		l := s.Serve(w.d, 1<<20)
		w.dial = func() net.Conn {
			c, err := l.Dial()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() }) // it cannot fail
			return c
		}
		test(w)
	})
}

func (w *world) client() *beanstalkdtest.Client { return beanstalkdtest.New(w.dial()) }

// do applies commands of the engine.
func (w *world) do(cmds ...job.Command) []job.Result {
	w.t.Helper()
	results := w.Engine.NewCaller().Do(w.t.Context(), cmds...)
	for i := range results {
		if results[i].Err != nil {
			w.t.Fatalf("%T: %v", cmds[i], results[i].Err)
		}
	}
	return results
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// expect calls a command and checks what follows the wanted word.
func (w *world) expect(c *beanstalkdtest.Client, line, word, rest string) {
	w.t.Helper()
	got, err := c.Call(word, line)
	if err != nil || got != rest {
		w.t.Errorf("%s: %q, %v, want %s %s", line, got, err, word, rest)
	}
}

// keys are those of stats, in their order.
var keys = strings.Fields(`current-jobs-urgent current-jobs-ready current-jobs-reserved current-jobs-delayed current-jobs-buried
	cmd-put cmd-peek cmd-peek-ready cmd-peek-delayed cmd-peek-buried cmd-reserve cmd-reserve-with-timeout cmd-delete cmd-release
	cmd-use cmd-watch cmd-ignore cmd-bury cmd-kick cmd-touch cmd-stats cmd-stats-job cmd-stats-tube cmd-list-tubes
	cmd-list-tube-used cmd-list-tubes-watched cmd-pause-tube job-timeouts total-jobs max-job-size current-tubes
	current-connections current-producers current-workers current-waiting total-connections pid version rusage-utime
	rusage-stime uptime binlog-oldest-index binlog-current-index binlog-records-migrated binlog-records-written
	binlog-max-size draining id hostname os platform`)

func TestStats(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		t := w.t
		p, worker, waiting := w.client(), w.client(), w.client()
		for i, priority := range []uint32{0, 1023, 1024, 2000} {
			_, err := p.Put("t", beanstalkdtest.Job{Priority: priority, TTR: time.Second, Body: []byte{byte(i)}})
			w.must(err)
		}
		_, err := p.Put("t", beanstalkdtest.Job{Delay: time.Hour})
		w.must(err)
		j, err := worker.Reserve("t", 0)
		w.must(err)
		testkit.Advance(t, time.Second)
		w.must(worker.Watch("other"))
		go func() { _, _ = waiting.Reserve("other", time.Hour) }()
		synctest.Wait()
		if err := worker.Delete(99); !errors.Is(err, beanstalkdtest.ErrNotFound) {
			t.Error(err)
		}
		w.must(p.Delete(j.ID))
		if _, err := p.Call("BAD_FORMAT", "delete x"); err != nil {
			t.Error(err)
		}
		stats, err := p.Stats("stats")
		w.must(err)
		for key, want := range map[string]string{
			"current-jobs-urgent": "1", "current-jobs-ready": "3", "current-jobs-delayed": "1",
			"current-jobs-reserved": "0",
			"cmd-put":               "5", "cmd-reserve-with-timeout": "2", "cmd-reserve": "0", "cmd-delete": "2",
			"cmd-use": "1", "cmd-watch": "3",
			"cmd-stats": "1", "job-timeouts": "1", "total-jobs": "5", "max-job-size": "65535", "current-tubes": "3",
			"current-connections": "3", "current-producers": "1", "current-workers": "2", "current-waiting": "1",
			"total-connections": "3",
			"version":           "1.13", "uptime": "1", "draining": "false",
		} {
			if stats[key] != want {
				t.Errorf("%s is %s, want %s", key, stats[key], want)
			}
		}
		conn := w.dial()
		_, err = beanstalkdtest.New(conn).Put("t", beanstalkdtest.Job{})
		w.must(err)
		for _, want := range []string{"2", "1"} {
			now, err := p.Stats("stats")
			w.must(err)
			if now["current-producers"] != want {
				t.Errorf("%s producers, want %s", now["current-producers"], want)
			}
			w.must(conn.Close())
			synctest.Wait()
		}
		for key, pattern := range map[string]string{
			"pid": `^\d+$`, "rusage-utime": `^\d+\.\d{6}$`,
			"id": `^[0-9a-f]{16}$`,
		} {
			if !regexp.MustCompile(pattern).MatchString(stats[key]) {
				t.Errorf("%s is %q", key, stats[key])
			}
		}
	})
}

// A job that another protocol has failed is delayed here: of all that are, the first to be due is seen first.
func TestPeekDelayed(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		c := w.client()
		w.do(&job.Push{Spec: job.Spec{
			Namespace: "default", Queue: "t", Body: []byte("failed"), BodyKind: job.BodyBytes,
			Policy: job.Policy{MaxFails: 5, Backoff: job.Backoff{Unit: time.Minute, Power: 1}},
		}})
		holder := w.Engine.NewHolder()
		j := w.do(&job.Fetch{Namespace: "default", Queues: []string{"t"}, Max: 1, Holder: holder})[0].Jobs[0]
		w.do(&job.Fail{Ref: j.Ref(), By: holder, Need: job.NeedHeld})
		for _, delayed := range []struct {
			after time.Duration
			want  string
		}{{time.Hour, "failed"}, {time.Second, "sooner"}} {
			_, err := c.Put("t", beanstalkdtest.Job{Delay: delayed.after, Body: []byte("sooner")})
			w.must(err)
			rest, err := c.Call("FOUND", "peek-delayed")
			w.must(err)
			body, err := c.Data(rest[strings.IndexByte(rest, ' ')+1:])
			w.must(err)
			if string(body) != delayed.want {
				w.t.Errorf("%q is seen first, want %q", body, delayed.want)
			}
		}
	})
}

// The keys of stats are all there, in the order of the original, and those with texts are quoted.
func TestStatsForm(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		t := w.t
		c := w.client()
		size, err := c.Call("OK", "stats")
		w.must(err)
		data, err := c.Data(size)
		w.must(err)
		var got []string
		for l := range strings.Lines(string(data)) {
			key, value, _ := strings.Cut(strings.TrimSuffix(l, "\n"), ": ")
			switch key {
			case "---":
				continue
			case "version", "hostname", "os", "platform":
				if _, err := strconv.Unquote(value); err != nil {
					t.Errorf("%s: %s", key, value)
				}
			}
			got = append(got, key)
		}
		if strings.Join(got, " ") != strings.Join(keys, " ") {
			t.Errorf("keys %v\nwant %v", got, keys)
		}
	})
}

// Jobs of other protocols have ids that tell where they are, and every command takes them.
func TestForeignJobs(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		t := w.t
		foreign := func(s job.Spec) job.ID {
			s.Namespace, s.Queue, s.Origin = "default", "q", dialect.DoorWorkq
			return w.do(&job.Push{Spec: s})[0].ID
		}
		c := w.client()
		w.expect(c, "use q", "USING", "q")
		id := foreign(job.Spec{Body: []byte("{}"), BodyKind: job.BodyJSON, Policy: job.Policy{Priority: 7}})
		shown := strconv.FormatUint(1<<62|1<<40|uint64(id), 10)
		w.expect(c, "peek-ready", "FOUND", shown+" 2")
		if _, err := c.Line(); err != nil {
			t.Fatal(err)
		}
		stats, err := c.Stats("stats-job " + shown)
		w.must(err)
		if stats["id"] != shown || stats["tube"] != "q" || stats["pri"] != "0" || stats["ttr"] != "0" {
			t.Errorf("stats-job: %v", stats)
		}
		j, err := c.Reserve("q", 0)
		w.must(err)
		if strconv.FormatUint(j.ID, 10) != shown {
			t.Errorf("reserved %d, want %s", j.ID, shown)
		}
		w.expect(c, "touch "+shown, "TOUCHED", "")
		w.expect(c, "bury "+shown+" 5", "BURIED", "")
		w.expect(c, "kick-job "+shown, "KICKED", "")
		w.expect(c, "reserve-job "+shown, "RESERVED", shown+" 2")
		if _, err := c.Line(); err != nil {
			t.Fatal(err)
		}
		// What the connection holds it can also call by the job's own number.
		w.expect(c, "release "+strconv.FormatUint(uint64(id), 10)+" 5 0", "RELEASED", "")
		w.expect(c, "delete "+shown, "DELETED", "")
		w.expect(c, "delete "+shown, "NOT_FOUND", "")
		w.expect(c, "delete "+strconv.FormatUint(1<<63|1, 10), "NOT_FOUND", "")

		// What waits for a retry or for others is delayed, what is dead is buried, what is finished is not there.
		retry := foreign(job.Spec{Policy: job.Policy{Backoff: job.Backoff{Unit: time.Hour}}})
		blocked := foreign(job.Spec{BlockedBy: []job.Blocker{{QueueNum: 1, ID: retry}}})
		dead, done := foreign(job.Spec{}), foreign(job.Spec{Policy: job.Policy{Keep: true}})
		ref := func(id job.ID) job.Ref { return job.ByPlace("default", 1, id) }
		w.do(&job.Fail{Ref: ref(retry), Need: job.NeedAny}, &job.Kill{Ref: ref(dead)},
			&job.Ack{Ref: ref(done), Need: job.NeedAny})
		for id, state := range map[job.ID]string{retry: "delayed", blocked: "delayed", dead: "buried"} {
			stats, err := c.Stats(fmt.Sprintf("stats-job %d", 1<<62|1<<40|uint64(id)))
			if err != nil || stats["state"] != state {
				t.Errorf("job %d: %v, %v, want %s", id, stats, err, state)
			}
		}
		w.expect(c, fmt.Sprintf("peek %d", 1<<62|1<<40|uint64(done)), "NOT_FOUND", "")
		w.expect(c, fmt.Sprintf("delete %d", 1<<62|1<<40|uint64(done)), "NOT_FOUND", "")
		stats, err = c.Stats("stats-tube q")
		w.must(err)
		if stats["current-jobs-delayed"] != "2" || stats["current-jobs-buried"] != "1" {
			t.Errorf("stats-tube: %v", stats)
		}
		// A delete of what the connection holds is an ack.
		keep := foreign(job.Spec{Policy: job.Policy{Keep: true}})
		if j, err = c.Reserve("q", 0); err != nil || j.ID != 1<<62|1<<40|uint64(keep) {
			t.Fatalf("reserved %+v, %v", j, err)
		}
		w.must(c.Delete(j.ID))
		if q := w.Queue(t, "default", "q"); q.Counts[job.Done] != 2 {
			t.Errorf("%d jobs are done", q.Counts[job.Done])
		}
	})
}

// Queues whose names are no names of tubes are not listed, and a pause without an end is as long as it can be.
func TestForeignQueues(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		t := w.t
		for _, name := range []string{"plain", "two words", "-dash", "ü"} {
			w.do(&job.Push{Spec: job.Spec{Namespace: "default", Queue: name}})
		}
		w.do(&job.Pause{Namespace: "default", Queue: "plain"})
		c := w.client()
		size, err := c.Call("OK", "list-tubes")
		w.must(err)
		data, err := c.Data(size)
		w.must(err)
		if string(data) != "---\n- default\n- plain\n" {
			t.Errorf("%q", data)
		}
		stats, err := c.Stats("stats-tube plain")
		w.must(err)
		if stats["pause"] != "4294967295" || stats["pause-time-left"] != "4294967295" {
			t.Errorf("stats-tube: %v", stats)
		}
		w.expect(c, "pause-tube plain 0", "PAUSED", "")
		if j, err := c.Reserve("plain", 0); err != nil {
			t.Errorf("%+v, %v", j, err)
		}
	})
}

func TestLimits(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		t := w.t
		c := w.client()
		for i := range 1023 {
			w.expect(c, fmt.Sprintf("watch t%d", i), "WATCHING", strconv.Itoa(i+2))
		}
		w.expect(c, "watch more", "OUT_OF_MEMORY", "")
		w.expect(c, "ignore t5", "WATCHING", "1023")
		w.expect(c, "watch more", "WATCHING", "1024")
		// A fetch from many tubes takes several steps.
		if _, err := w.client().Put("t1000", beanstalkdtest.Job{TTR: time.Minute, Body: []byte("x")}); err != nil {
			t.Fatal(err)
		}
		w.expect(c, "reserve", "RESERVED", "1 1")

		// A line that does not end ends the connection.
		conn := w.dial()
		if _, err := conn.Write([]byte(strings.Repeat("x", 70_000))); err != nil {
			t.Fatal(err)
		}
		if _, err := beanstalkdtest.New(conn).Line(); err == nil {
			t.Error("the connection is still open")
		}
	})
}

// TestWatchedTogether has all connections together watch as many tubes as they may.
func TestWatchedTogether(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		w.t.Helper()
		_, most, _ := w.shared.Names()
		for range most - 1 {
			w.shared.HoldName()
		}
		conn := w.dial()
		a, b := beanstalkdtest.New(conn), w.client()
		w.expect(a, "watch one", "WATCHING", "2")
		w.expect(a, "watch one", "WATCHING", "2") // it is watched
		w.expect(b, "watch two", "OUT_OF_MEMORY", "")
		w.expect(a, "ignore default", "WATCHING", "1")
		w.expect(b, "watch two", "WATCHING", "2")
		w.expect(a, "watch three", "OUT_OF_MEMORY", "")
		w.expect(b, "ignore two", "WATCHING", "1")
		w.expect(a, "watch three", "WATCHING", "2")
		w.must(conn.Close())
		synctest.Wait()
		if held, _, refused := w.shared.Names(); held != most-1 || refused != 2 {
			w.t.Errorf("%d names are held, want %d; %d were refused, want 2", held, most-1, refused)
		}
	})
}

// list-tubes shows a bounded number of tubes, those that are only watched included.
func TestListBound(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		w.t.Helper()
		var c *beanstalkdtest.Client
		for i := range 10 {
			c = w.client()
			for k := range 1023 {
				w.expect(c, fmt.Sprintf("watch t%d-%d", i, k), "WATCHING", strconv.Itoa(k+2))
			}
		}
		size, err := c.Call("OK", "list-tubes")
		w.must(err)
		data, err := c.Data(size)
		w.must(err)
		if n := strings.Count(string(data), "\n- "); n != dialect.QueuesShown {
			w.t.Errorf("%d tubes, want %d", n, dialect.QueuesShown)
		}
	})
}

// Commands that arrive together are answered together, also around those that wait and read.
func TestPipelining(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		t := w.t
		conn := w.dial()
		c := beanstalkdtest.New(conn)
		var all strings.Builder
		want := []string{}
		for i := range 300 {
			fmt.Fprintf(&all, "use t%d\r\nput 0 0 60 1\r\nx\r\nreserve-job %d\r\nstats-job %d\r\nbury %d "+
				"1\r\nkick-job %d\r\ndelete %d\r\n",
				i, i+1, i+1, i+1, i+1, i+1)
			want = append(want, fmt.Sprintf("USING t%d", i), fmt.Sprintf("INSERTED %d", i+1),
				fmt.Sprintf("RESERVED %d 1", i+1), "x", "OK",
				"BURIED", "KICKED", "DELETED")
		}
		go func() {
			_, _ = conn.Write([]byte(all.String())) // what is missing is missed below
		}()
		for _, w := range want {
			line, err := c.Line()
			if err != nil || !strings.HasPrefix(line, w) {
				t.Fatalf("%q, %v, want %s", line, err, w)
			}
			if size, ok := strings.CutPrefix(line, "OK "); ok {
				if _, err := c.Data(size); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}
