// Package beanstalkd runs clients of beanstalkd against the binary: the Go client of
// its authors, and jackd for Node.
package beanstalkd

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/beanstalkd/go-beanstalk"

	"millrace/test/clients/kit"
)

func TestMain(m *testing.M) { os.Exit(kit.Main(m)) }

// listener is the name under which the server announces its listener.
const listener = "beanstalkd"

// connect connects for the length of the test.
func connect(t *testing.T, s *kit.Server) *beanstalk.Conn {
	t.Helper()
	c, err := beanstalk.Dial("tcp", s.Addr(listener))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // a test may have closed it
	return c
}

// ok fails the test if a call did.
func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// refused checks the error of a call.
func refused(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
}

// put puts a job.
func put(t *testing.T, tube *beanstalk.Tube, body string, pri uint32, delay time.Duration) uint64 {
	t.Helper()
	id, err := tube.Put([]byte(body), pri, delay, time.Minute)
	ok(t, err)
	return id
}

// reserve reserves a job and checks which it is.
func reserve(t *testing.T, set *beanstalk.TubeSet, id uint64, body string) {
	t.Helper()
	got, b, err := set.Reserve(10 * time.Second)
	if err != nil || got != id || string(b) != body {
		t.Fatalf("reserved %d %q, %v, want %d %q", got, b, err, id, body)
	}
}

// state checks what stats-job says.
func state(t *testing.T, c *beanstalk.Conn, id uint64, want map[string]string) {
	t.Helper()
	got, err := c.StatsJob(id)
	ok(t, err)
	for key, value := range want {
		if got[key] != value {
			t.Errorf("job %d: %s is %q, want %q", id, key, got[key], value)
		}
	}
}

func TestWork(t *testing.T) {
	t.Parallel()
	s := kit.Start(t, []string{listener})
	producer, worker := connect(t, s), connect(t, s)
	tube, set := beanstalk.NewTube(producer, "mails"), beanstalk.NewTubeSet(worker, "mails", "sms")

	low, high := put(t, tube, "low", 100, 0), put(t, tube, "high\r\n\x00\xff", 1, 0)
	other := put(t, beanstalk.NewTube(producer, "sms"), "other", 50, 0)
	id, body, err := tube.PeekReady()
	if err != nil || id != high || string(body) != "high\r\n\x00\xff" {
		t.Errorf("peeked %d %q, %v", id, body, err)
	}
	reserve(t, set, high, "high\r\n\x00\xff")
	reserve(t, set, other, "other")
	reserve(t, set, low, "low")
	_, _, err = set.Reserve(0)
	refused(t, err, beanstalk.ErrTimeout)

	ok(t, worker.Delete(high))
	refused(t, worker.Delete(high), beanstalk.ErrNotFound)
	refused(t, producer.Delete(low), beanstalk.ErrNotFound)
	ok(t, worker.Touch(low))
	ok(t, worker.Release(low, 7, 0))
	state(t, producer, low, map[string]string{"state": "ready", "pri": "7", "releases": "1", "reserves": "1"})
	ok(t, worker.Bury(other, 5))
	refused(t, worker.Bury(other, 5), beanstalk.ErrNotFound)
	ok(t, producer.Delete(other))

	// A job that is released for later comes then.
	reserve(t, set, low, "low")
	ok(t, worker.Release(low, 7, time.Second))
	state(t, producer, low, map[string]string{"state": "delayed", "delay": "1", "releases": "2"})
	reserve(t, set, low, "low")

	// What a connection holds is ready again when it ends.
	ok(t, worker.Close())
	second := connect(t, s)
	reserve(t, beanstalk.NewTubeSet(second, "mails"), low, "low")
	state(t, second, low, map[string]string{"timeouts": "0", "reserves": "4"})
	ok(t, second.Delete(low))
}

func TestWaiting(t *testing.T) {
	t.Parallel()
	s := kit.Start(t, []string{listener})
	producer, worker := connect(t, s), connect(t, s)
	tube, set := beanstalk.NewTube(producer, "t"), beanstalk.NewTubeSet(worker, "t")

	// A worker that waits is woken.
	type got struct {
		id  uint64
		err error
	}
	woken := make(chan got, 1)
	go func() {
		id, _, err := set.Reserve(time.Minute)
		woken <- got{id, err}
	}()
	id, err := tube.Put([]byte("x"), 0, 0, time.Second)
	ok(t, err)
	if g := <-woken; g.err != nil || g.id != id {
		t.Fatalf("%+v", g)
	}
	// It holds a job with a second to go, and is not to wait.
	_, _, err = set.Reserve(time.Minute)
	refused(t, err, beanstalk.ErrDeadline)
	// Another one gets the job when the time is over.
	second := connect(t, s)
	reserve(t, beanstalk.NewTubeSet(second, "t"), id, "x")
	refused(t, worker.Delete(id), beanstalk.ErrNotFound)
	state(t, second, id, map[string]string{"timeouts": "1"})
	ok(t, second.Delete(id))

	// A paused tube gives nothing.
	ok(t, tube.Pause(time.Hour))
	put(t, tube, "y", 0, 0)
	_, _, err = set.Reserve(0)
	refused(t, err, beanstalk.ErrTimeout)
	ok(t, tube.Pause(0))
	_, _, err = set.Reserve(0)
	ok(t, err)
	refused(t, beanstalk.NewTube(producer, "nowhere").Pause(time.Second), beanstalk.ErrNotFound)
}

func TestKicking(t *testing.T) {
	t.Parallel()
	c := connect(t, kit.Start(t, []string{listener}))
	tube, set := beanstalk.NewTube(c, "t"), beanstalk.NewTubeSet(c, "t")
	var ids []uint64
	for range 3 {
		ids = append(ids, put(t, tube, "x", 0, 0))
	}
	for _, id := range ids {
		reserve(t, set, id, "x")
	}
	later := put(t, tube, "later", 0, time.Hour)
	for _, i := range []int{2, 0, 1} {
		ok(t, c.Bury(ids[i], 0))
	}
	if id, _, err := tube.PeekBuried(); err != nil || id != ids[2] {
		t.Errorf("%d, %v", id, err)
	}
	for _, n := range []int{2, 1, 1, 0} { // two, the last, the one that is delayed, and none
		kicked, err := tube.Kick(2)
		if err != nil || kicked != n {
			t.Errorf("kicked %d, %v, want %d", kicked, err, n)
		}
	}
	state(t, c, later, map[string]string{"state": "ready", "kicks": "1", "delay": "3600"})
	another := put(t, tube, "another", 0, time.Hour)
	if id, body, err := tube.PeekDelayed(); err != nil || id != another || string(body) != "another" {
		t.Errorf("%d %q, %v", id, body, err)
	}
	ok(t, c.KickJob(another))
	refused(t, c.KickJob(another), beanstalk.ErrNotFound)
	body, err := c.ReserveJob(another)
	if err != nil || string(body) != "another" {
		t.Errorf("%q, %v", body, err)
	}
	_, err = c.ReserveJob(another)
	refused(t, err, beanstalk.ErrNotFound)
	body, err = c.Peek(another)
	if err != nil || string(body) != "another" {
		t.Errorf("%q, %v", body, err)
	}
}

func TestStats(t *testing.T) {
	t.Parallel()
	c := connect(t, kit.Start(t, []string{listener}, "--beanstalkd-max-job-size", "100"))
	tube := beanstalk.NewTube(c, "t")
	put(t, tube, "x", 5, 0)
	put(t, tube, "x", 5000, 0)
	_, err := tube.Put(make([]byte, 101), 0, 0, time.Second)
	refused(t, err, beanstalk.ErrJobTooBig)
	stats, err := tube.Stats()
	ok(t, err)
	if stats["current-jobs-ready"] != "2" || stats["current-jobs-urgent"] != "1" || stats["current-using"] != "1" ||
		stats["total-jobs"] != "2" {
		t.Errorf("%v", stats)
	}
	all, err := c.Stats()
	ok(t, err)
	if all["cmd-put"] != "3" || all["max-job-size"] != "100" || all["current-jobs-ready"] != "2" ||
		all["current-connections"] != "1" {
		t.Errorf("%v", all)
	}
	tubes, err := c.ListTubes()
	if err != nil || len(tubes) != 2 || tubes[0] != "default" || tubes[1] != "t" {
		t.Errorf("%v, %v", tubes, err)
	}
}

// TestTLS has the client speak TLS, which it is given a connection for.
func TestTLS(t *testing.T) {
	t.Parallel()
	cert := kit.NewCertificate(t)
	s := kit.Start(t, []string{listener}, "--beanstalkd-tls-cert", cert.CertFile, "--beanstalkd-tls-key", cert.KeyFile)
	pem, err := os.ReadFile(cert.CertFile)
	ok(t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	conn, err := tls.Dial("tcp", s.Addr(listener), &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12})
	ok(t, err)
	c := beanstalk.NewConn(conn)
	defer func() { _ = c.Close() }() // the test is over
	id := put(t, beanstalk.NewTube(c, "default"), "secret", 0, 0)
	reserve(t, beanstalk.NewTubeSet(c, "default"), id, "secret")
	ok(t, c.Delete(id))
}

// TestNode runs the tests of jackd.
func TestNode(t *testing.T) {
	t.Parallel()
	host, port := kit.Start(t, []string{listener}).HostPort(t, listener)
	kit.Node(t, "beanstalkd.js", "jackd", "HOST="+host, "PORT="+strconv.Itoa(port))
}
