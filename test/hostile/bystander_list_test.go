//go:build linux

package hostile

import (
	"fmt"
	"net/http"
	"strings"
	"sync"

	"millrace/internal/dialect/tarantool/tarantooltest"
)

// listTrials ask for figures of many queues, which makes answers and work as long as there are queues.
var listTrials = []trial{
	{name: "list one", does: "%d queues, asked for one at a time", size: 200_000, run: func(f *field) { f.lists(1) }},
	{name: "list many", does: "%d queues, asked for by 8 at a time", size: 200_000, run: func(f *field) { f.lists(8) }},
}

// listAgain is how often each of those who ask does so.
const listAgain = 3

// lists measures each of the lists by that many who ask for it at the same time.
func (f *field) lists(at int) {
	f.t.Helper()
	f.queues(f.n)
	last := f.n - 100
	for _, l := range []struct {
		what string
		ask  func() func()
	}{
		{"Faktory INFO", f.ask("faktory", "INFO\r\n")},
		{"Masenko INFO", f.ask("masenko", "INFO\n")},
		{"Workq inspect queues, last page", f.askWorkq(fmt.Sprintf("inspect queues %d 100\r\n", last))},
		{"Tarantool queue.stats()", f.askTarantool("queue.stats", "")},
		{"Tarantool queue.tube()", f.askTarantool("queue.tube", "")},
		{"Tarantool queue.statistics(0)", f.askTarantool("queue.statistics", "0")},
		{"GET /metrics", f.get("web", "/metrics")},
		{"GET /api/v1/queues", f.get("web", "/api/v1/queues?limit=200")},
		{"GET /api/v1/queues of one name", f.get("web", fmt.Sprintf("/api/v1/queues?limit=200&name=q%d", f.n-1))},
		{"GET /api/v1/namespaces", f.get("web", "/api/v1/namespaces")},
		{"GET /api/v1/live", f.get("web", "/api/v1/live")},
		{"GET /stats", f.get("web", "/stats")},
		{"GET / (overview)", f.get("web", "/")},
		{"LMSTFY GET /info", f.get("admin", "/info")},
		{"LMSTFY GET /metrics", f.get("admin", "/metrics")},
		{"GET /api/v1/jobs of a type that none has", f.get("web", "/api/v1/jobs?type=none")},
	} {
		asks := make([]func(), at)
		for i := range asks {
			asks[i] = l.ask()
		}
		f.measure(fmt.Sprintf("%s with %d queues, %d at a time", l.what, f.n, at), func() {
			var wg sync.WaitGroup
			for _, ask := range asks[1:] {
				wg.Go(func() {
					for range listAgain {
						ask()
					}
				})
			}
			for range listAgain {
				f.command(asks[0])
			}
			wg.Wait()
		})
	}
}

// ask returns who makes connections that send a line each time and read the answer.
func (f *field) ask(protocol, line string) func() func() {
	return func() func() {
		w := f.wire(protocol)
		return func() {
			if _, err := w.conn.Write([]byte(line)); err != nil {
				f.t.Error(err)
			}
			if ok, err := w.read(w.r); err != nil || !ok {
				f.t.Errorf("%s: success %v, %v", strings.TrimSpace(line), ok, err)
			}
		}
	}
}

// askWorkq is ask for an answer of several items.
func (f *field) askWorkq(line string) func() func() {
	return func() func() {
		w := f.wire("workq")
		return func() {
			var items int
			_, err := w.conn.Write([]byte(line))
			head := ""
			if err == nil {
				head, err = w.r.ReadString('\n')
			}
			if err == nil {
				_, err = fmt.Sscanf(head, "+OK %d", &items)
			}
			for range 3 * items { // a header and two keys
				if err == nil {
					_, err = w.r.ReadString('\n')
				}
			}
			if err != nil || items == 0 {
				f.t.Errorf("%q: %v", head, err)
			}
		}
	}
}

func (f *field) askTarantool(procedure, args string) func() func() {
	return func() func() {
		c, err := tarantooltest.Dial(f.server.Addrs["tarantool"])
		if err != nil {
			f.t.Fatal(err)
		}
		f.t.Cleanup(func() { _ = c.Close() }) // the server may have closed it first
		return func() {
			if _, err := c.CallRaw(procedure, tarantooltest.MustEncode(args)); err != nil {
				f.t.Errorf("%s: %v", procedure, err)
			}
		}
	}
}

// get is ask for HTTP.
func (f *field) get(listener, path string) func() func() {
	return func() func() {
		return func() {
			if code, text := f.http(listener, http.MethodGet, path, ""); code != http.StatusOK {
				f.t.Errorf("%s: status %d: %.200s", path, code, text)
			}
		}
	}
}
