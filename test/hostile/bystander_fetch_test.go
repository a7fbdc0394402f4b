//go:build linux

package hostile

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"millrace/internal/dialect/tarantool/tarantooltest"
)

// fetchTrials fetch from as many queues at once as a protocol lets them. Their size is that of connections.
var fetchTrials = []trial{
	{name: "fetch unknown", does: "queues that do not exist", size: 2500, short: 150, most: 9000, run: fetchUnknown},
	{name: "fetch known", does: "queues that exist", size: 2500, most: 9000, run: fetchKnown},
	{name: "fetch same", does: "queues that others wait for, too", size: 2500, most: 9000, run: fetchSame},
	{name: "fetch lmstfy", does: "queues that do not exist", size: 2500, short: 250, most: 9000, run: fetchLmstfy},
	{
		name: "fetch loop", does: "8 connections that fetch from 4096 queues all the time and do not wait",
		size: 8, run: fetchLoop,
	},
}

const (
	fetchNames       = 4096
	fetchNamesLmstfy = 1024
)

// fetchFrom returns a FETCH from as many queues as one may name.
func fetchFrom(prefix, timeout string) []byte {
	names := repeat(fetchNames, func(b *bytes.Buffer, i int) { fmt.Fprintf(b, `"%s-%d"`, prefix, i) })
	return fmt.Appendf(nil, "FETCH {\"queues\":[%s],\"timeout\":%q}\n", names, timeout)
}

func fetchUnknown(f *field) {
	f.fetchAndHangUp("masenko", fetchNames, func(i int) []byte { return fetchFrom("c"+strconv.Itoa(i), "10m") })
}

func fetchSame(f *field) {
	f.fetchAndHangUp("masenko", fetchNames, func(int) []byte { return fetchFrom("same", "10m") })
}

func fetchKnown(f *field) {
	f.tubes("known", fetchNames)
	f.fetchAndHangUp("masenko", fetchNames, func(int) []byte { return fetchFrom("known", "10m") })
}

func fetchLmstfy(f *field) {
	f.fetchAndHangUp("lmstfy", fetchNamesLmstfy, func(i int) []byte {
		names := repeat(fetchNamesLmstfy, func(b *bytes.Buffer, k int) { fmt.Fprintf(b, "c%d-%d", i, k) })
		return fmt.Appendf(nil, "GET /api/default/%s?timeout=600 HTTP/1.1\r\nHost: localhost\r\n\r\n", names)
	})
}

// fetchAndHangUp has each of many connections wait for jobs of many queues, and then closes all of them.
func (f *field) fetchAndHangUp(protocol string, names int, request func(i int) []byte) {
	f.t.Helper()
	conns := make([]net.Conn, f.n)
	for i := range conns {
		conns[i] = f.wire(protocol).conn
	}
	requests := make([][]byte, f.n) // making them is not what is measured
	for i := range requests {
		requests[i] = request(i)
	}
	idle := f.waiting()
	f.measure(fmt.Sprintf("%d %s connections that each wait for %d %s", f.n, protocol, names, f.does), func() {
		var refused atomic.Int64 // the server has limits for what waits
		for i, conn := range conns {
			_, _ = conn.Write(requests[i]) // what is missing is found below
			go func() {
				if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
					refused.Add(1) // told so, or closed because of too much unfinished input
				}
			}()
		}
		f.until("all of them wait or are refused",
			func() bool { return f.waiting()+int(refused.Load()) >= idle+f.n-len(f.bystanders) })
		f.linger() // some may still be looking
		f.t.Logf("%d of them are refused", refused.Load())
	})
	f.measure(fmt.Sprintf("these %d connections are closed at once", f.n), func() {
		for _, conn := range conns {
			_ = conn.Close() // the server may have closed it first
		}
		f.until("none of them waits", func() bool { return f.waiting() <= idle+len(f.bystanders) })
	})
}

// waiting returns how many callers the server says are waiting.
func (f *field) waiting() int {
	f.t.Helper()
	return f.metric("millrace_engine_waiters ")
}

// metric returns the sum of the series that begin in some way.
func (f *field) metric(begin string) int {
	f.t.Helper()
	sum := 0.0
	for line := range strings.Lines(f.operate(http.MethodGet, "/metrics", "")) {
		if !strings.HasPrefix(line, begin) {
			continue
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(line, ' ')+1:]), 64)
		if err != nil {
			f.t.Fatal(err)
		}
		sum += value
	}
	return int(sum)
}

// tubes makes n queues that have no jobs.
func (f *field) tubes(prefix string, n int) {
	f.t.Helper()
	w := f.wire("tarantool")
	w.read = readAnyTarantool
	w.flood(n, func(b []byte, i int) []byte {
		args := tarantooltest.MustEncode(fmt.Sprintf(`"%s-%d", "fifo"`, prefix, i))
		return append(b, tarantooltest.CallPacket(tarantooltest.TypeCall, uint64(i), "queue.create_tube", 2, args)...)
	})
}

// loopTime is how long a loop without end is measured.
const loopTime = 3 * time.Second

func fetchLoop(f *field) {
	request := fetchFrom("none", "1ns")
	f.measure(f.does, func() {
		var wg sync.WaitGroup
		stop := make(chan struct{})
		for range f.n {
			w := f.wire("masenko")
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					if _, err := w.conn.Write(request); err != nil {
						return
					}
					if _, err := w.read(w.r); err != nil {
						return
					}
				}
			})
		}
		f.pass(loopTime)
		close(stop)
		wg.Wait()
	})
}
