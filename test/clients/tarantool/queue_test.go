package tarantool

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/tarantool/go-iproto"
	"github.com/tarantool/go-tarantool/v2"
	"github.com/tarantool/go-tarantool/v2/queue"

	"millrace/test/clients/kit"
)

// tube makes a tube of the kind for the test.
func tube(t *testing.T, conn tarantool.Connector, name string, cfg queue.Cfg) queue.Queue {
	t.Helper()
	q := queue.New(conn, name)
	ok(t, q.Create(cfg))
	return q
}

// put puts a task and checks its state.
func put(t *testing.T, q queue.Queue, data any, opts queue.Opts, status string) *queue.Task {
	t.Helper()
	task, err := q.PutWithOpts(data, opts)
	ok(t, err)
	if task == nil || task.Status() != status {
		t.Fatalf("put: %+v, want the state %s", task, status)
	}
	return task
}

// take takes a task that must be there.
func take(t *testing.T, q queue.Queue, timeout time.Duration) *queue.Task {
	t.Helper()
	task, err := q.TakeTimeout(timeout)
	ok(t, err)
	if task == nil || !task.IsTaken() {
		t.Fatalf("take: %+v, want a task", task)
	}
	return task
}

// nothing checks that a tube has no task to take.
func nothing(t *testing.T, q queue.Queue) {
	t.Helper()
	if task, err := q.TakeTimeout(0); err != nil || task != nil {
		t.Fatalf("take: %+v, %v, want nothing", task, err)
	}
}

// refused checks that the server answered with an error.
func refused(t *testing.T, err error, code iproto.Error, text string) {
	t.Helper()
	var got tarantool.Error
	if !errors.As(err, &got) || got.Code != code || !strings.Contains(got.Msg, text) {
		t.Errorf("got %v, want %v: %s", err, code, text)
	}
}

func TestQueue(t *testing.T) {
	t.Parallel()
	addr := kit.Start(t, []string{modern}).Addr(modern)
	for name, test := range map[string]func(*testing.T, string){
		"tubes":       testTubes,
		"life":        testLife,
		"typed":       testTyped,
		"blocking":    testBlocking,
		"fifo":        testFIFO,
		"fifottl":     testFIFOTTL,
		"utube":       testUTube,
		"release all": testReleaseAll,
		"statistic":   testStatistic,
		"ownership":   testOwnership,
		"pipelining":  testPipelining,
		"legacy":      testLegacy,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, addr)
		})
	}
}

func testTubes(t *testing.T, addr string) {
	conn := connect(t, addr)
	q := queue.New(conn, "tubes")
	if exists, err := q.Exists(); err != nil || exists {
		t.Fatalf("exists: %v, %v", exists, err)
	}
	_, err := q.Put("x")
	refused(t, err, iproto.ER_NO_SUCH_PROC, "Procedure 'queue.tube.tubes:put' is not defined")
	ok(t, q.Create(queue.Cfg{Kind: queue.FIFO, Temporary: true}))
	refused(t, q.Create(queue.Cfg{Kind: queue.FIFO}), iproto.ER_PROC_LUA, "Space 'tubes' already exists")
	ok(t, q.Create(queue.Cfg{Kind: queue.FIFO, IfNotExists: true}))
	if exists, err := q.Exists(); err != nil || !exists {
		t.Errorf("exists: %v, %v", exists, err)
	}
	put(t, q, "x", queue.Opts{}, queue.READY)
	task := take(t, q, 0)
	refused(t, q.Drop(), iproto.ER_PROC_LUA, "There are taken tasks in the tube")
	ok(t, task.Ack())
	ok(t, q.Drop())
	if exists, err := q.Exists(); err != nil || exists {
		t.Errorf("exists: %v, %v", exists, err)
	}
	if state, err := q.State(); err != nil || state != queue.RunningState {
		t.Errorf("state: %v, %v", state, err)
	}
}

func testLife(t *testing.T, addr string) {
	q := tube(t, connect(t, addr), "life", queue.Cfg{
		Kind: queue.FIFO_TTL,
		Opts: queue.Opts{Ttl: time.Hour, Ttr: time.Minute},
	})
	task, err := q.Put("first")
	ok(t, err)
	if task.Id() != 0 || task.Data() != "first" || !task.IsReady() {
		t.Fatalf("put: %+v", task)
	}
	if task, err = q.Peek(task.Id()); err != nil || task.Data() != "first" || !task.IsReady() {
		t.Errorf("peek: %+v, %v", task, err)
	}
	task, err = q.Take()
	ok(t, err)
	if task == nil || task.Id() != 0 || task.Data() != "first" || !task.IsTaken() {
		t.Fatalf("take: %+v", task)
	}
	ok(t, task.Touch(time.Minute))
	if !task.IsTaken() {
		t.Errorf("touched: %s", task.Status())
	}
	ok(t, task.Release())
	if !task.IsReady() {
		t.Errorf("released: %s", task.Status())
	}
	refused(t, task.Ack(), iproto.ER_PROC_LUA, "Task was not taken")

	task = take(t, q, 0)
	ok(t, task.Bury())
	if !task.IsBuried() {
		t.Errorf("buried: %s", task.Status())
	}
	nothing(t, q)
	if n, err := q.Kick(5); err != nil || n != 1 {
		t.Errorf("kick: %d, %v", n, err)
	}
	task = take(t, q, 0)
	ok(t, task.Ack())
	if !task.IsDone() {
		t.Errorf("acknowledged: %s", task.Status())
	}
	_, err = q.Peek(task.Id())
	refused(t, err, iproto.ER_PROC_LUA, fmt.Sprintf("Task %d not found", task.Id()))

	task = put(t, q, "second", queue.Opts{}, queue.READY)
	if task.Id() != 1 {
		t.Errorf("id %d, want 1", task.Id())
	}
	ok(t, q.Delete(task.Id()))
	refused(t, q.Delete(task.Id()), iproto.ER_PROC_LUA, "Task 1 not found")
	nothing(t, q)

	// A release with a delay is not ready before it is over.
	put(t, q, "third", queue.Opts{}, queue.READY)
	task = take(t, q, 0)
	start := time.Now()
	ok(t, task.ReleaseCfg(queue.Opts{Delay: 300 * time.Millisecond}))
	if !task.IsDelayed() {
		t.Errorf("released with a delay: %s", task.Status())
	}
	task = take(t, q, 10*time.Second)
	if d := time.Since(start); d < 300*time.Millisecond {
		t.Errorf("ready after %v", d)
	}
	ok(t, task.Delete())
	if !task.IsDone() {
		t.Errorf("deleted: %s", task.Status())
	}
}

// order is what a typed task carries.
type order struct {
	Item  string   `msgpack:"item"`
	Count uint     `msgpack:"count"`
	Tags  []string `msgpack:"tags"`
	Price float64  `msgpack:"price"`
}

func testTyped(t *testing.T, addr string) {
	q := tube(t, connect(t, addr), "typed", queue.Cfg{Kind: queue.FIFO})
	want := order{Item: "Bücher", Count: 3, Tags: []string{"a", "b"}, Price: 5}
	put(t, q, &want, queue.Opts{}, queue.READY)
	var got order
	task, err := q.TakeTyped(&got)
	ok(t, err)
	if task == nil || !reflect.DeepEqual(got, want) {
		t.Errorf("typed: %+v, want %+v", got, want)
	}
	ok(t, task.Ack())
	if task, err = q.TakeTypedTimeout(0, &got); err != nil || task != nil {
		t.Errorf("typed, from nothing: %+v, %v", task, err)
	}
	// What is put untyped comes back untyped, and as it was.
	for _, data := range []any{
		"text",
		[]byte{0, 1, 255},
		int8(-3), uint64(1 << 63), 5.0, 1.25, true,
		[]any{int8(1), "x", nil},
		map[any]any{"k": []any{"v"}, int8(1): int8(2)},
	} {
		put(t, q, data, queue.Opts{}, queue.READY)
		task := take(t, q, 0)
		if !reflect.DeepEqual(task.Data(), data) {
			t.Errorf("data %T %v came back as %T %v", data, data, task.Data(), task.Data())
		}
		ok(t, task.Ack())
	}
}

func testBlocking(t *testing.T, addr string) {
	conn := connect(t, addr)
	q := tube(t, conn, "blocking", queue.Cfg{Kind: queue.FIFO})
	start := time.Now()
	if task, err := q.TakeTimeout(300 * time.Millisecond); err != nil || task != nil ||
		time.Since(start) < 300*time.Millisecond {
		t.Fatalf("take: %+v, %v after %v", task, err, time.Since(start))
	}
	// Waiting takes do not keep others of the same connection from being served.
	got := make(chan *queue.Task, 3)
	for range cap(got) {
		go func() {
			task, err := q.TakeTimeout(15 * time.Second)
			if err != nil {
				t.Error(err)
			}
			got <- task
		}()
	}
	_, err := conn.Do(tarantool.NewPingRequest()).Get()
	ok(t, err)
	for i := range cap(got) {
		put(t, q, i, queue.Opts{}, queue.READY)
	}
	seen := make(map[uint64]bool)
	for range cap(got) {
		task := <-got
		if task == nil || seen[task.Id()] {
			t.Fatalf("take: %+v, seen %v", task, seen)
		}
		seen[task.Id()] = true
		ok(t, task.Ack())
	}
	nothing(t, q)
}

func testFIFO(t *testing.T, addr string) {
	q := tube(t, connect(t, addr), "fifo", queue.Cfg{Kind: queue.FIFO})
	for i := range 20 {
		put(t, q, i, queue.Opts{Pri: 20 - i, Delay: time.Hour}, queue.READY) // both have no meaning here
	}
	task := take(t, q, 0)
	refused(t, task.Touch(time.Second), iproto.ER_PROC_LUA, "fifo queue does not support touch")
	ok(t, task.Release())
	for i := range 20 {
		if task := take(t, q, 0); task.Id() != uint64(i) {
			t.Fatalf("take %d: %+v", i, task)
		}
	}
	nothing(t, q)
}

func testFIFOTTL(t *testing.T, addr string) {
	q := tube(t, connect(t, addr), "fifottl", queue.Cfg{Kind: queue.FIFO_TTL})
	put(t, q, "low", queue.Opts{Pri: 5}, queue.READY)
	put(t, q, "middle", queue.Opts{Pri: 2}, queue.READY)
	put(t, q, "middle too", queue.Opts{Pri: 2}, queue.READY)
	put(t, q, "high", queue.Opts{}, queue.READY)
	for _, want := range []string{"high", "middle", "middle too", "low"} {
		task := take(t, q, 0)
		if task.Data() != want {
			t.Errorf("took %v, want %s", task.Data(), want)
		}
		ok(t, task.Ack())
	}
	// A short life ends unseen, or is seen before it does.
	put(t, q, "short", queue.Opts{Ttl: 100 * time.Millisecond}, queue.READY)
	put(t, q, "long", queue.Opts{Pri: 9}, queue.READY)
	for data := any(nil); data != "long"; {
		task := take(t, q, 0)
		data = task.Data()
		ok(t, task.Ack())
	}
	// The time to run ends, which gives the task to the next.
	start := time.Now()
	put(t, q, "hidden", queue.Opts{Ttr: 200 * time.Millisecond}, queue.READY)
	first := take(t, q, 0)
	if task := take(t, q, 10*time.Second); task.Id() != first.Id() || time.Since(start) < 200*time.Millisecond {
		t.Errorf("took %v after %v", task.Data(), time.Since(start))
	} else {
		ok(t, task.Ack())
	}
	start = time.Now()
	put(t, q, "late", queue.Opts{Delay: 300 * time.Millisecond}, queue.DELAYED)
	if task := take(t, q, 10*time.Second); task.Data() != "late" || time.Since(start) < 300*time.Millisecond {
		t.Errorf("took %v after %v", task.Data(), time.Since(start))
	}
	nothing(t, q)
}

func testUTube(t *testing.T, addr string) {
	conn := connect(t, addr)
	for _, cfg := range []queue.Cfg{{Kind: queue.UTUBE}, {Kind: queue.UTUBE_TTL}} {
		q := tube(t, conn, "u"+fmt.Sprint(cfg.Kind), cfg)
		put(t, q, "a1", queue.Opts{Utube: "a"}, queue.READY)
		put(t, q, "a2", queue.Opts{Utube: "a"}, queue.READY)
		put(t, q, "b1", queue.Opts{Utube: "b"}, queue.READY)
		a1, b1 := take(t, q, 0), take(t, q, 0)
		if a1.Data() != "a1" || b1.Data() != "b1" {
			t.Errorf("took %v, %v, want a1, b1", a1.Data(), b1.Data())
		}
		nothing(t, q)
		ok(t, a1.Ack())
		if a2 := take(t, q, 0); a2.Data() != "a2" {
			t.Errorf("took %v, want a2", a2.Data())
		}
	}
}

func testReleaseAll(t *testing.T, addr string) {
	q := tube(t, connect(t, addr), "releaseall", queue.Cfg{Kind: queue.FIFO})
	for i := range 3 {
		put(t, q, i, queue.Opts{}, queue.READY)
		take(t, q, 0)
	}
	nothing(t, q)
	ok(t, q.ReleaseAll())
	for i := range 3 {
		if task := take(t, q, 0); task.Id() != uint64(i) {
			t.Errorf("take %d: %+v", i, task)
		}
	}
}

func testStatistic(t *testing.T, addr string) {
	q := tube(t, connect(t, addr), "statistic", queue.Cfg{Kind: queue.FIFO_TTL})
	for i := range 6 {
		put(t, q, i, queue.Opts{}, queue.READY)
	}
	put(t, q, "later", queue.Opts{Delay: time.Hour}, queue.DELAYED)
	tasks := []*queue.Task{take(t, q, 0), take(t, q, 0), take(t, q, 0), take(t, q, 0)}
	ok(t, tasks[0].Ack())
	ok(t, tasks[1].Bury())
	ok(t, tasks[2].Touch(time.Second))
	ok(t, tasks[3].Release())
	ok(t, q.Delete(5))
	got, err := q.Statistic()
	ok(t, err)
	want := map[string]map[string]int{
		"tasks": {"taken": 1, "buried": 1, "ready": 2, "done": 2, "delayed": 1, "total": 5},
		"calls": {
			"ack": 1, "bury": 1, "delete": 1, "kick": 0, "put": 7, "release": 1, "take": 4, "touch": 1,
			"ttl": 0, "ttr": 0, "delay": 0,
		},
	}
	stats, _ := got.(map[any]any)
	for group, counters := range want {
		figures, _ := stats[group].(map[any]any)
		if len(figures) != len(counters) {
			t.Errorf("%s: %v, want %v", group, figures, counters)
		}
		for name, n := range counters {
			if fmt.Sprint(figures[name]) != fmt.Sprint(n) {
				t.Errorf("%s.%s: %v, want %d", group, name, figures[name], n)
			}
		}
	}
}

func testOwnership(t *testing.T, addr string) {
	first, second := connect(t, addr), connect(t, addr)
	q := tube(t, first, "ownership", queue.Cfg{Kind: queue.FIFO})
	same := queue.New(second, "ownership")
	put(t, q, "x", queue.Opts{}, queue.READY)
	task := take(t, q, 0)
	// Another session may not acknowledge it, until it joins this one.
	other, err := same.Peek(task.Id())
	ok(t, err)
	refused(t, other.Ack(), iproto.ER_PROC_LUA, "Task was not taken")
	id, err := q.Identify(nil)
	ok(t, err)
	if again, err := q.Identify(nil); err != nil || again != id {
		t.Errorf("identify: %v, %v, want %v", again, err, id)
	}
	if theirs, err := same.Identify(nil); err != nil || theirs == id {
		t.Errorf("identify on another connection: %v, %v", theirs, err)
	}
	stranger := uuid.New()
	_, err = same.Identify(&stranger)
	refused(t, err, iproto.ER_PROC_LUA, "is unknown")
	if joined, err := same.Identify(&id); err != nil || joined != id {
		t.Errorf("join: %v, %v, want %v", joined, err, id)
	}
	ok(t, other.Ack())

	// The session lives as long as one of its connections; then its tasks are
	// given back at once.
	put(t, q, "y", queue.Opts{}, queue.READY)
	take(t, q, 0)
	ok(t, first.Close())
	nothing(t, same)
	third := queue.New(connect(t, addr), "ownership")
	ok(t, second.Close())
	if task := take(t, third, 10*time.Second); task.Data() != "y" {
		t.Errorf("took %v", task.Data())
	}
}

func testPipelining(t *testing.T, addr string) {
	// With more than one buffer the connector itself would change the order.
	conn := dial(t, tarantool.NetDialer{Address: addr}, tarantool.Opts{Timeout: timeout, Concurrency: 1})
	tube(t, conn, "pipelining", queue.Cfg{Kind: queue.FIFO})
	const n = 500
	call := func(method string, args ...any) *tarantool.Future {
		return conn.Do(tarantool.NewCallRequest("queue.tube.pipelining:" + method).Args(args))
	}
	futures := make([]*tarantool.Future, 0, 3*n)
	for i := range n {
		futures = append(futures, call("put", i), call("take", 0), call("ack", i))
	}
	for i, f := range futures {
		reply, err := f.Get()
		ok(t, err)
		want := fmt.Sprint([]any{[]any{i / 3, []string{"r", "t", "-"}[i%3], i / 3}})
		if fmt.Sprint(reply) != want {
			t.Fatalf("reply %d: %v, want %s", i, reply, want)
		}
	}
}

// testLegacy calls the old procedures through the modern connector.
func testLegacy(t *testing.T, addr string) {
	conn, other := connect(t, addr), connect(t, addr)
	call := func(c *tarantool.Connection, name string, args ...any) ([]any, error) {
		return c.Do(tarantool.NewCallRequest("queue." + name).Args(args)).Get()
	}
	task := func(name string, args ...any) []any {
		t.Helper()
		reply, err := call(conn, name, args...)
		ok(t, err)
		if len(reply) != 1 {
			t.Fatalf("queue.%s: %v, want one task", name, reply)
		}
		fields, _ := reply[0].([]any)
		if len(fields) < 3 {
			t.Fatalf("queue.%s: %v, want a task", name, reply)
		}
		return fields
	}
	put := task("put", 7, "t", 0, 60, 10, 5, "a", "b")
	id, _ := put[0].(string)
	if len(id) != 32 || !reflect.DeepEqual(put[1:], []any{"t", "ready", "a", "b"}) {
		t.Errorf("put: %v", put)
	}
	urgent := task("urgent", 7, "t", "0", "60", "10", "5", "u")
	if got := task("take", 7, "t", 0); got[0] != urgent[0] || got[2] != "taken" {
		t.Errorf("take: %v", got)
	}
	if got := task("take", 7, "t", 0.5); got[0] != id {
		t.Errorf("take: %v", got)
	}
	_, err := call(other, "ack", 7, id)
	refused(t, err, iproto.ER_PROC_LUA, "Only consumer that took the task can it ack")
	if got := task("ack", 7, id); !reflect.DeepEqual(got, []any{id, "t", "taken", "a", "b"}) {
		t.Errorf("ack: %v", got)
	}
	_, err = call(conn, "ack", 7, id)
	refused(t, err, iproto.ER_PROC_LUA, "Task not found")
	if got := task("bury", 7, urgent[0]); got[2] != "buried" {
		t.Errorf("bury: %v", got)
	}
	if reply, err := call(conn, "kick", 7, "t", 3); err != nil || fmt.Sprint(reply) != "[1]" {
		t.Errorf("kick: %v, %v", reply, err)
	}
	if reply, err := call(conn, "take", 8, "t", 0); err != nil || len(reply) != 0 {
		t.Errorf("take from another space: %v, %v", reply, err)
	}
	if got := task("meta", 7, urgent[0]); len(got) != 13 || got[2] != "ready" || fmt.Sprint(got[10]) != "1" {
		t.Errorf("meta: %v", got)
	}
	if got := task("delete", 7, urgent[0]); got[2] != "ready" {
		t.Errorf("delete: %v", got)
	}
}

// TestSession comes back to a session that has lost all its connections. How long
// that is possible is a setting of the whole server.
func TestSession(t *testing.T) {
	t.Parallel()
	addr := kit.Start(t, []string{modern}).Addr(modern)
	conn := connect(t, addr)
	q := tube(t, conn, "session", queue.Cfg{Kind: queue.FIFO})
	ok(t, q.Cfg(queue.CfgOpts{Ttr: time.Minute}))
	put(t, q, "x", queue.Opts{}, queue.READY)
	task := take(t, q, 0)
	id, err := q.Identify(nil)
	ok(t, err)
	ok(t, conn.Close())

	q = queue.New(connect(t, addr), "session")
	nothing(t, q)
	if joined, err := q.Identify(&id); err != nil || joined != id {
		t.Fatalf("identify: %v, %v, want %v", joined, err, id)
	}
	if task, err = q.Peek(task.Id()); err != nil || !task.IsTaken() {
		t.Fatalf("peek: %+v, %v", task, err)
	}
	ok(t, task.Ack())
}
