package dialecttest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/testkit"
)

const (
	namespace  = "default"
	queue      = "common"
	maxCommand = 64 << 10
	// closing is how long a server may take to close a connection of a peer that
	// does not behave.
	closing = 5 * time.Second
	// writing is the write timeout that the tests ask for.
	writing = 10 * time.Second
)

// bench is one test's server, with one driver's dialect.
type bench struct {
	*Server
	t     *testing.T
	d     Driver
	l     *testkit.Listener
	keeps bool // settled jobs are kept as done
}

// Run runs the cases that every protocol must pass.
func Run(t *testing.T, d Driver) {
	t.Helper()
	cases := []struct {
		name string
		size int // of the connections' buffers
		test func(b *bench)
	}{
		{"garbage harms nobody", 0, garbage},
		{"a web page runs no command", 0, webPage},
		{"a job may be about HTTP", 0, aboutHTTP},
		{"an oversized command ends the connection", 0, oversized},
		{"a peer that goes while waiting gets no job", 0, goneWhileWaiting},
		{"a peer that goes while another waits", 0, goneWhileOthersWait},
		{"half a command changes nothing", 0, halfCommand},
		{"a command that never ends ends the connection", 0, endless},
		{"pipelined commands are answered in order", 0, pipelined},
		{"commands in single bytes", 0, singleBytes},
		{"a slow reader is cut off", 4 << 10, slowReader},
		{"an unwritten delivery is taken back", 16, unwritten},
		{"an unwritten delivery does not lapse", 16, unwrittenLapse},
		{"a delivery that is never written is taken back, lapsed or not", 16, neverWritten},
		{"draining answers those who wait", 0, draining},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := &bench{Server: Start(t), t: t, d: d, keeps: d.Keeps}
				b.l = b.drive(d, maxCommand, c.size)
				c.test(b)
				b.Stop(t)
			})
		})
	}
}

func (b *bench) dial() *testkit.Conn {
	b.t.Helper()
	c, err := b.l.Dial()
	if err != nil {
		b.t.Fatalf("dial: %v", err)
	}
	return c
}

func (b *bench) client() Client {
	b.t.Helper()
	c, err := b.d.Client(b.dial())
	if err != nil {
		b.t.Fatalf("handshake: %v", err)
	}
	return c
}

// raw returns a connection that has shaken hands.
func (b *bench) raw() (*testkit.Conn, *bufio.Reader) {
	b.t.Helper()
	c := b.dial()
	r, err := b.d.hello(c)
	if err != nil {
		b.t.Fatalf("handshake: %v", err)
	}
	return c, r
}

func (b *bench) push(c Client, body string) {
	b.t.Helper()
	if err := c.Push(queue, body); err != nil {
		b.t.Fatalf("push: %v", err)
	}
}

// counts checks how many jobs of the queue are ready and leased.
func (b *bench) counts(ready, leased uint64) {
	b.t.Helper()
	synctest.Wait() // a delivery may be answered before its lease is committed
	q := b.Queue(b.t, namespace, queue)
	alive := q.Total()
	if b.keeps {
		alive -= q.Counts[job.Done]
	}
	if q.Counts[job.Ready] != ready || q.Counts[job.Leased] != leased || alive != ready+leased {
		b.t.Errorf("counts %v, want %d ready and %d leased", q.Counts, ready, leased)
	}
}

// works checks that a new client can still do a whole job.
func (b *bench) works() {
	b.t.Helper()
	c := b.client()
	b.push(c, `"works"`)
	task, err := c.Fetch(queue, time.Second)
	if err != nil || task.Body != `"works"` {
		b.t.Fatalf("fetch: %+v, %v", task, err)
	}
	if err := c.Ack(task.Handle); err != nil {
		b.t.Fatalf("ack: %v", err)
	}
	_ = c.Close() // it cannot fail
	synctest.Wait()
}

// swallow drops what a connection receives until it ends.
func swallow(c net.Conn) {
	buf := make([]byte, 4096)
	for {
		if _, err := c.Read(buf); err != nil {
			return
		}
	}
}

func garbage(b *bench) {
	rnd := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test repeats itself
	for range 200 {
		c := b.dial()
		go swallow(c)
		data := make([]byte, rnd.IntN(300))
		for i := range data {
			data[i] = byte(rnd.IntN(256)) //nolint:gosec // below 256
			if rnd.IntN(8) == 0 {
				data[i] = "\r\n {}\"[]0-"[rnd.IntN(10)]
			}
		}
		// The server may have closed already: that is its good right.
		_, _ = c.Write(data)
		synctest.Wait()
		_ = c.Close() // it cannot fail
	}
	synctest.Wait()
	b.counts(0, 0)
	b.works()
}

func oversized(b *bench) {
	c, _ := b.raw()
	go swallow(c)
	// As a command that never ends, and as one whose payload is too long.
	part := bytes.Repeat([]byte("x"), 32<<10)
	var err error
	for i := 0; i < 64 && err == nil; i++ {
		_, err = c.Write(part)
	}
	testkit.Advance(b.t, closing)
	if _, err := c.Write([]byte("x")); err == nil {
		b.t.Error("the connection is still open")
	}
	_ = c.Close() // it cannot fail
	c, _ = b.raw()
	go swallow(c)
	_, _ = c.Write(b.d.Push(queue, `"`+strings.Repeat("x", 4*maxCommand)+`"`)) // it may be closed meanwhile
	testkit.Advance(b.t, closing)
	_ = c.Close() // it cannot fail
	synctest.Wait()
	b.counts(0, 0)
	b.works()
}

func goneWhileWaiting(b *bench) {
	c, _ := b.raw()
	b.write(c, b.d.Fetch(queue, 20*time.Second))
	testkit.Advance(b.t, time.Second)
	_ = c.Close() // it cannot fail
	synctest.Wait()
	b.push(b.client(), `1`)
	testkit.Advance(b.t, time.Second)
	b.counts(1, 0)
	if q := b.Queue(b.t, namespace, queue); q.Totals[job.CountFetched] != 0 {
		b.t.Errorf("%d deliveries", q.Totals[job.CountFetched])
	}
	if task, err := b.client().Fetch(queue, time.Second); err != nil || task.Body != `1` {
		b.t.Errorf("the next client got %+v, %v", task, err)
	}
}

func goneWhileOthersWait(b *bench) {
	gone, _ := b.raw()
	stays, r := b.raw()
	b.write(gone, b.d.Fetch(queue, 20*time.Second))
	synctest.Wait()
	b.write(stays, b.d.Fetch(queue, 20*time.Second))
	synctest.Wait()
	_ = gone.Close() // it cannot fail
	synctest.Wait()
	b.push(b.client(), `2`)
	if ok, err := b.d.ReadReply(r); !ok || err != nil {
		b.t.Errorf("the client that stayed got no job: %v", err)
	}
	b.counts(0, 1)
}

func halfCommand(b *bench) {
	whole := b.d.Push(queue, `"half"`)
	for _, n := range []int{1, len(whole) / 2, len(whole) - 1} {
		c, _ := b.raw()
		b.write(c, whole[:n])
		synctest.Wait()
		_ = c.Close() // it cannot fail
		synctest.Wait()
		b.counts(0, 0)
	}
	b.works()
}

func pipelined(b *bench) {
	const n = 1000
	c, r := b.raw()
	var all []byte
	for i := range n {
		all = append(all, b.d.Push(queue, fmt.Sprint(i))...)
	}
	go func() { _, _ = c.Write(all) }() // it ends with the connection
	for i := range n {
		if ok, err := b.d.ReadReply(r); !ok || err != nil {
			b.t.Fatalf("reply %d: %v, %v", i, ok, err)
		}
	}
	b.counts(n, 0)
	worker := b.client()
	for i := range n {
		task, err := worker.Fetch(queue, time.Second)
		if err != nil || task.Body != fmt.Sprint(i) {
			b.t.Fatalf("fetch %d: %+v, %v", i, task, err)
		}
		if err := worker.Ack(task.Handle); err != nil {
			b.t.Fatalf("ack %d: %v", i, err)
		}
	}
	if _, err := worker.Fetch(queue, time.Second); !errors.Is(err, ErrEmpty) {
		b.t.Errorf("fetch from the empty queue: %v", err)
	}
	b.counts(0, 0)
}

func singleBytes(b *bench) {
	c, r := b.raw()
	for _, one := range b.d.Push(queue, `[1,2]`) {
		b.write(c, []byte{one})
		synctest.Wait()
	}
	if ok, err := b.d.ReadReply(r); !ok || err != nil {
		b.t.Fatalf("reply: %v, %v", ok, err)
	}
	b.counts(1, 0)
}

// slowReader sends commands without reading the replies until the server can
// write no more.
func slowReader(b *bench) {
	c, _ := b.raw()
	sent := make(chan error, 1)
	go func() {
		for {
			if _, err := c.Write(b.d.Push(queue, `"slow"`)); err != nil {
				sent <- err
				return
			}
		}
	}()
	testkit.Advance(b.t, writing-time.Second)
	select {
	case err := <-sent:
		b.t.Errorf("cut off too early: %v", err)
	default:
	}
	if err := b.client().Push("other", `1`); err != nil {
		b.t.Errorf("another client's push: %v", err)
	}
	testkit.Advance(b.t, writing+closing)
	select {
	case <-sent:
	default:
		b.t.Error("a client that does not read is still connected")
	}
	_ = c.Close() // it cannot fail
}

// unwritten closes the connection while the server writes a job to it.
func unwritten(b *bench) {
	b.push(b.client(), `"`+strings.Repeat("x", 1000)+`"`)
	c, _ := b.raw()
	b.write(c, b.d.Fetch(queue, time.Second))
	synctest.Wait()
	b.counts(0, 1)
	_ = c.Close() // it cannot fail
	synctest.Wait()
	b.counts(1, 0)
	q := b.Queue(b.t, namespace, queue)
	if q.Totals[job.CountReturned] != 1 || q.Totals[job.CountFailed] != 0 {
		b.t.Errorf("returned %d, failed %d", q.Totals[job.CountReturned], q.Totals[job.CountFailed])
	}
}

// overdue has a peer fetch a job that it does not read, and lets the time of its lease pass.
func (b *bench) overdue() (net.Conn, *bufio.Reader) {
	b.t.Helper()
	b.push(b.client(), `"`+strings.Repeat("x", 1000)+`"`)
	c, r := b.raw()
	b.write(c, b.d.Fetch(queue, time.Second))
	synctest.Wait()
	b.counts(0, 1)
	p, err := b.Engine.List(engine.ListOptions{Namespace: namespace, Queue: queue, State: job.Leased, Limit: 1})
	if err != nil || len(p.Jobs) != 1 {
		b.t.Fatalf("leased jobs: %+v, %v", p, err)
	}
	j := &p.Jobs[0]
	touch := &job.Touch{Ref: j.Ref(), By: j.Lease.Holder, Need: job.NeedHeld, Until: b.Engine.Now().Add(time.Second)}
	if res := b.Engine.NewCaller().Do(b.t.Context(), touch)[0]; res.Err != nil {
		b.t.Fatalf("touch: %v", res.Err)
	}
	testkit.Advance(b.t, 3*time.Second)
	return c, r
}

// unwrittenLapse lets a lease end while the server writes the job: nobody else may get it before the peer has.
func unwrittenLapse(b *bench) {
	_, r := b.overdue()
	b.counts(0, 1)
	fetch := &job.Fetch{Namespace: namespace, Queues: []string{queue}, Max: 1}
	if res := b.Engine.NewCaller().Do(b.t.Context(), fetch)[0]; len(res.Jobs) > 0 {
		b.t.Error("another one has got the job that is still being written")
	}
	if ok, err := b.d.ReadReply(r); !ok || err != nil {
		b.t.Fatalf("the delivery: %v, %v", ok, err)
	}
	synctest.Wait() // the end of the lease is carried out now
	if q := b.Queue(b.t, namespace, queue); q.Counts[job.Leased] != 0 || q.Totals[job.CountLapsed] != 1 ||
		q.Totals[job.CountReturned] != 0 {
		b.t.Errorf("leased %d, lapsed %d, returned %d", q.Counts[job.Leased], q.Totals[job.CountLapsed],
			q.Totals[job.CountReturned])
	}
}

// neverWritten cuts off a peer that does not read: the write timeout bounds how long a lease outlasts its time.
func neverWritten(b *bench) {
	c, _ := b.overdue()
	testkit.Advance(b.t, 2*writing)
	b.counts(1, 0)
	if q := b.Queue(b.t, namespace, queue); q.Totals[job.CountLapsed] != 0 || q.Totals[job.CountReturned] != 1 {
		b.t.Errorf("lapsed %d, returned %d", q.Totals[job.CountLapsed], q.Totals[job.CountReturned])
	}
	_ = c.Close() // it cannot fail
}

func draining(b *bench) {
	c, r := b.raw()
	idle, idleReader := b.raw()
	b.write(c, b.d.Fetch(queue, 20*time.Second))
	synctest.Wait()
	b.Stop(b.t)
	if ok, err := b.d.ReadReply(r); ok || err != nil {
		b.t.Errorf("the waiting client got %v, %v, want an empty reply", ok, err)
	}
	for _, r := range []*bufio.Reader{r, idleReader} {
		if _, err := r.ReadByte(); err == nil {
			b.t.Error("a connection is still open")
		}
	}
	_, _ = c.Close(), idle.Close() // they cannot fail
	b.open(b.t)
}

func (b *bench) write(c net.Conn, data []byte) {
	b.t.Helper()
	if _, err := c.Write(data); err != nil {
		b.t.Fatalf("write: %v", err)
	}
}
