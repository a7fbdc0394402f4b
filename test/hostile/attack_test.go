//go:build linux

package hostile

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// attack is one kind of misbehaviour. It goes on until ctx ends, or until it has done
// its worst, and closes what it opened.
type attack struct {
	name string
	does string // for the report
	// skips are listeners that it does not concern.
	skips func(target) bool
	run   func(ctx context.Context, t target) error
}

func notHTTP(t target) bool { return !t.http }

var attacks = []attack{
	{name: "silent before the handshake", does: "800 connections that say nothing", run: silent},
	{name: "byte at a time", does: "160 that send a byte every 5 ms", run: byteAtATime},
	{
		name: "slow headers", does: "90 HTTP headers that never end, a line every 50 ms", skips: notHTTP,
		run: slowHeaders,
	},
	{name: "slow bodies", does: "90 HTTP bodies of which 10 bytes come every 50 ms", skips: notHTTP, run: slowBodies},
	{
		name: "never reads", does: "24 that send requests until nothing is taken any more, and read no answer",
		run: neverReads,
	},
	{
		name: "half a request, then half closed",
		does: "400 that send half a request and close their side", run: halfOpen,
	},
	{name: "connects and stays", does: "10,000 connections as fast as can be, which stay", run: connectAndStay},
	{
		name: "connects and closes", does: "10,000 connections as fast as can be, each reset at once",
		run: connectAndClose,
	},
	{
		name: "giant lengths", does: "312 commands that announce giant lengths, with up to 40 MiB of them",
		run: giantLengths,
	},
	{
		name: "random bytes", does: "80 at a time that send random bytes, or requests that are nearly right",
		run: randomBytes,
	},
	{name: "deep nesting", does: "30 commands of a million levels of arrays, objects, maps, flags", run: deepNesting},
	{
		name: "pipelines", does: "100,000 commands at once on each of 5 listeners, 10,000 requests on " +
			"each of 3 of HTTP",
		run: pipelines,
	},
}

// opened counts the connections of an attacker, answered the answers that it has read.
var opened, answered atomic.Int64

// dial connects. Closing resets the connection, so that ten thousand of them do not
// use up the ports.
func dial(ctx context.Context, t target) (net.Conn, error) {
	d := net.Dialer{KeepAlive: -1}
	conn, err := d.DialContext(ctx, "tcp", t.addr)
	if err != nil {
		return nil, err
	}
	opened.Add(1)
	if tc, ok := conn.(*net.TCPConn); ok {
		_ = tc.SetLinger(0) // closing in the ordinary way would do, too
	}
	return conn, nil
}

// shaken connects and does the handshake.
func shaken(ctx context.Context, t target) (net.Conn, *bufio.Reader, error) {
	conn, err := dial(ctx, t)
	if err != nil || t.shake == nil {
		return conn, bufio.NewReader(conn), err
	}
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return conn, nil, err
	}
	r, err := t.shake(conn)
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	return conn, r, err
}

// refused says whether an error is the server's good right: it may refuse, cut off and
// reset those who do not behave.
func refused(ctx context.Context, err error) bool {
	var ne *net.OpError
	return ctx.Err() != nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &ne)
}

// many runs f that often at the same time and returns the first error that is not the
// server's good right.
func many(ctx context.Context, n int, f func(i int) error) error {
	var wg sync.WaitGroup
	errs := make(chan error, n)
	for i := range n {
		wg.Go(func() {
			if err := f(i); err != nil && !refused(ctx, err) {
				errs <- err
			}
		})
	}
	wg.Wait()
	close(errs)
	return <-errs
}

// each connects that often at the same time, does the handshake, and closes when f has
// returned, which is at the end of the attack at the latest.
func each(ctx context.Context, t target, n int, f func(i int, conn net.Conn, r *bufio.Reader) error) error {
	return many(ctx, n, func(i int) error {
		conn, r, err := shaken(ctx, t)
		if conn != nil {
			defer conn.Close() //nolint:errcheck // the server may have closed it first
		}
		if err != nil {
			return err
		}
		if deadline, ok := ctx.Deadline(); ok {
			if err := conn.SetWriteDeadline(deadline); err != nil {
				return err
			}
		}
		return f(i, conn, r)
	})
}

// drip sends text in pieces of size, one every interval, until it is sent or ctx ends.
func drip(ctx context.Context, conn net.Conn, text string, size int, interval time.Duration) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for len(text) > 0 {
		n := min(size, len(text))
		if _, err := io.WriteString(conn, text[:n]); err != nil {
			return err
		}
		text = text[n:]
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

func silent(ctx context.Context, t target) error {
	t.shake = nil
	return each(ctx, t, 100, func(int, net.Conn, *bufio.Reader) error {
		<-ctx.Done()
		return nil
	})
}

func byteAtATime(ctx context.Context, t target) error {
	return each(ctx, t, 20, func(i int, conn net.Conn, r *bufio.Reader) error {
		// A whole request sent so slowly is still a request.
		if err := drip(ctx, conn, t.cheap, 1, 5*time.Millisecond); err != nil || ctx.Err() != nil {
			return err
		}
		if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
			return err
		}
		if err := t.answers(r); err != nil {
			return fmt.Errorf("%s does not answer what came byte by byte: %s", t.name, err) //nolint:errorlint // this must not pass for a refusal
		}
		answered.Add(1)
		return drip(ctx, conn, strings.Repeat(t.whole(i), 100), 1, 5*time.Millisecond)
	})
}

func slowHeaders(ctx context.Context, t target) error {
	return each(ctx, t, 30, func(_ int, conn net.Conn, _ *bufio.Reader) error {
		return drip(ctx, conn, "GET / HTTP/1.1\r\n"+strings.Repeat("X-Slow: 1\r\n", 1000), 11, 50*time.Millisecond)
	})
}

func slowBodies(ctx context.Context, t target) error {
	return each(ctx, t, 30, func(_ int, conn net.Conn, _ *bufio.Reader) error {
		whole := request(http.MethodPut, "/api/default/hostile", strings.Repeat("x", 60000))
		head := strings.Index(whole, "\r\n\r\n") + 4
		if _, err := io.WriteString(conn, whole[:head]); err != nil {
			return err
		}
		return drip(ctx, conn, whole[head:], 10, 50*time.Millisecond)
	})
}

// neverReads sends requests with large answers until the server takes no more of them.
// Until the buffers of a socket are full that is plain work for the server, so there are
// few of them: on two processors each more makes everybody's turn come later.
func neverReads(ctx context.Context, t target) error {
	return each(ctx, t, 3, func(_ int, conn net.Conn, _ *bufio.Reader) error {
		if tc, ok := conn.(*net.TCPConn); ok {
			_ = tc.SetReadBuffer(4 << 10) // the larger one would only take longer
		}
		for n := 0; ; n++ {
			if _, err := io.WriteString(conn, t.whole(n)+strings.Repeat(t.bulky, 10)); err != nil {
				<-ctx.Done() // it stays as it is
				return err
			}
		}
	})
}

func halfOpen(ctx context.Context, t target) error {
	return each(ctx, t, 50, func(i int, conn net.Conn, _ *bufio.Reader) error {
		whole := t.whole(i)
		if _, err := io.WriteString(conn, whole[:len(whole)/2]); err != nil {
			return err
		}
		if tc, ok := conn.(*net.TCPConn); ok {
			_ = tc.CloseWrite() // the server may have closed it first
		}
		<-ctx.Done()
		return nil
	})
}

// connectsPerListener of eight listeners are ten thousand.
const connectsPerListener = 1250

// connectAndStay opens many connections as fast as it can and keeps them.
func connectAndStay(ctx context.Context, t target) error {
	var conns []net.Conn
	defer func() {
		for _, conn := range conns {
			_ = conn.Close() // the server may have closed it first
		}
	}()
	for range connectsPerListener {
		conn, err := dial(ctx, t)
		if err != nil {
			if refused(ctx, err) {
				break
			}
			return err
		}
		conns = append(conns, conn)
	}
	<-ctx.Done()
	return nil
}

// connectAndClose opens and closes many connections as fast as it can.
func connectAndClose(ctx context.Context, t target) error {
	for i := range connectsPerListener {
		conn, err := dial(ctx, t)
		if err != nil {
			if refused(ctx, err) {
				return nil
			}
			return err
		}
		if i%2 == 0 {
			_, _ = io.WriteString(conn, "x") // it may be closed
		}
		_ = conn.Close() // the server may have closed it first
	}
	<-ctx.Done() // so that what follows is measured, too
	return nil
}

func giantLengths(ctx context.Context, t target) error { return monstrous(ctx, t, 8, t.giants) }

func deepNesting(ctx context.Context, t target) error { return monstrous(ctx, t, 2, t.nested) }

// monstrous sends each of the texts over that many connections.
func monstrous(ctx context.Context, t target, times int, texts []string) error {
	return each(ctx, t, times*len(texts), func(i int, conn net.Conn, _ *bufio.Reader) error {
		go swallow(conn)
		_, err := io.WriteString(conn, texts[i%len(texts)])
		<-ctx.Done()
		return err
	})
}

// swallow drops what comes until the connection ends.
func swallow(conn net.Conn) {
	_, _ = io.Copy(io.Discard, conn) // its end is what is waited for
}

func randomBytes(ctx context.Context, t target) error {
	return many(ctx, 10, func(i int) error {
		rnd := rand.New(rand.NewPCG(1, uint64(i)))
		for ctx.Err() == nil {
			conn, err := dial(ctx, t)
			if err != nil {
				return err
			}
			data := make([]byte, 1+rnd.IntN(2000))
			for k := range data {
				data[k] = byte(rnd.IntN(256))
				if rnd.IntN(8) == 0 {
					data[k] = "\r\n {}\"[]0-"[rnd.IntN(10)]
				}
			}
			if rnd.IntN(2) == 0 { // something that is nearly right
				whole := t.whole(i)
				data = append([]byte(whole[:rnd.IntN(len(whole))]), data...)
			}
			_ = conn.SetDeadline(time.Now().Add(5 * time.Millisecond)) // a connection that is open takes it
			_, _ = conn.Write(data)                                    // the server may have closed it
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.Close() // the same
		}
		return nil
	})
}

// pipelined is how many commands are sent without waiting for an answer. An HTTP
// request costs ten times as much as another command.
func pipelined(t target) int {
	if t.http {
		return 10_000
	}
	return 100_000
}

// pipelines sends all commands at once and counts the answers, which must all come.
func pipelines(ctx context.Context, t target) error {
	conn, r, err := shaken(ctx, t)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // it has done its work
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	sent := make(chan error, 1)
	go func() {
		_, err := io.WriteString(conn, strings.Repeat(t.cheap, pipelined(t)))
		sent <- err
	}()
	for i := range pipelined(t) {
		if err := t.answers(r); err != nil {
			return fmt.Errorf("%s: answer %d of %d: %s", t.name, i, pipelined(t), err) //nolint:errorlint // this must not pass for a refusal
		}
		answered.Add(1)
	}
	return <-sent
}

// answer reads an HTTP answer.
func answer(r *bufio.Reader) error {
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	if cerr := resp.Body.Close(); err == nil {
		err = cerr
	}
	return err
}
