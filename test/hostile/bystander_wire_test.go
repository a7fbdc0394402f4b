//go:build linux

package hostile

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"millrace/internal/dialect/dialecttest"
)

// wire is a connection that commands are sent over without waiting for the answers.
type wire struct {
	f    *field
	conn net.Conn
	r    *bufio.Reader
	read func(*bufio.Reader) (bool, error)
}

// wire connects to a listener, handshake included.
func (f *field) wire(protocol string) *wire {
	f.t.Helper()
	for _, d := range append(drivers(), dialecttest.TarantoolLegacy()) {
		if d.Name != protocol {
			continue
		}
		name, _, _ := strings.Cut(protocol, "-")
		conn, err := net.Dial("tcp", f.server.Addrs[name])
		if err != nil {
			f.t.Fatal(err)
		}
		w := &wire{f: f, conn: conn, read: d.ReadReply}
		f.t.Cleanup(w.close)
		if d.Hello == nil {
			w.r = bufio.NewReaderSize(conn, 64<<10)
		} else if w.r, err = d.Hello(conn); err != nil {
			f.t.Fatal(err)
		}
		return w
	}
	f.t.Fatalf("there is no protocol %s", protocol)
	return nil
}

func (w *wire) close() { _ = w.conn.Close() } // the server may have closed it first

// send writes without waiting for an answer.
func (w *wire) send(b []byte) {
	w.f.t.Helper()
	if _, err := w.conn.Write(b); err != nil {
		w.f.t.Fatal(err)
	}
}

// answer reads one answer, which must tell success.
func (w *wire) answer() {
	w.f.t.Helper()
	if ok, err := w.read(w.r); err != nil || !ok {
		w.f.t.Fatalf("answer: success %v, %v", ok, err)
	}
}

// call sends one command, which must succeed.
func (w *wire) call(format string, args ...any) {
	w.f.t.Helper()
	w.send(fmt.Appendf(nil, format, args...))
	w.answer()
}

// line sends one command and returns the line that answers it.
func (w *wire) line(format string, args ...any) string {
	w.f.t.Helper()
	w.send(fmt.Appendf(nil, format, args...))
	line, err := w.r.ReadString('\n')
	if err != nil {
		w.f.t.Fatal(err)
	}
	return line
}

// flood sends n commands without waiting, each appended by add, and reads the answers, which must all
// tell success.
func (w *wire) flood(n int, add func(b []byte, i int) []byte) {
	w.f.t.Helper()
	sent := make(chan error, 1)
	go func() {
		var err error
		b := make([]byte, 0, 128<<10)
		for i := 0; i < n && err == nil; i++ {
			if b = add(b, i); len(b) > 64<<10 || i == n-1 {
				_, err = w.conn.Write(b)
				b = b[:0]
			}
		}
		sent <- err
	}()
	for i := range n {
		if ok, err := w.read(w.r); err != nil || !ok {
			w.f.t.Fatalf("answer %d of %d: success %v, %v", i, n, ok, err)
		}
	}
	if err := <-sent; err != nil {
		w.f.t.Fatal(err)
	}
}

// bulk is how many jobs one command pushes while a trial is built up.
const bulk = 1000

// push pushes n jobs to a queue, the fastest way. Extra is what else is to be said of each: members of
// the task, each after a comma.
func (f *field) push(queue string, n int, extra string) {
	f.t.Helper()
	w := f.wire("masenko")
	w.flood((n+bulk-1)/bulk, func(b []byte, i int) []byte { return appendAtomic(b, queue, min(bulk, n-i*bulk), extra) })
	w.close()
}

// appendAtomic appends a transaction of n pushes.
func appendAtomic(b []byte, queue string, n int, extra string) []byte {
	b = append(b, "ATOMIC\n"...)
	for range n {
		b = fmt.Appendf(b, "PUSH {\"name\":\"t\",\"queue\":%q%s}\n", queue, extra)
	}
	return append(b, "DONE\n"...)
}

// pushOne pushes a job to a queue and returns its id.
func (w *wire) pushOne(queue, extra string) (id uint64) {
	w.f.t.Helper()
	reply := w.line("PUSH {\"name\":\"t\",\"queue\":%q%s}\n", queue, extra)
	if _, err := fmt.Sscanf(reply, `OK {"id":%d}`, &id); err != nil {
		w.f.t.Fatalf("%q: %v", reply, err)
	}
	return id
}

// pushNamed pushes n jobs by Faktory, whose jids are those of jid(i). Extra is what else is to be said of
// each: members of the job, each after a comma.
func (f *field) pushNamed(queue string, n int, extra func(i int) string) {
	f.t.Helper()
	w := f.wire("faktory")
	w.flood((n+bulk-1)/bulk, func(b []byte, k int) []byte {
		b = append(b, "PUSHB ["...)
		for i := k * bulk; i < min(n, (k+1)*bulk); i++ {
			b = fmt.Appendf(b, `{"jid":%q,"jobtype":"t","args":[],"queue":%q%s},`, jid(queue, i), queue, extra(i))
		}
		b[len(b)-1] = ']'
		return append(b, "\r\n"...)
	})
	w.close()
}

func jid(queue string, i int) string { return fmt.Sprintf("%s-%08d", queue, i) }

// plain says nothing else of a job.
func plain(int) string { return "" }

// web asks the operator's side.
func (f *field) web(method, path, body string) (code int, text string) {
	f.t.Helper()
	return f.http("web", method, path, body)
}

// http asks a listener on a connection of its own.
func (f *field) http(listener, method, path, body string) (code int, text string) {
	f.t.Helper()
	client := http.Client{Timeout: trialPatience, Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(f.t.Context(), method, "http://"+f.server.Addrs[listener]+path,
		strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // it has been read
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// operate has an operator do something, which must succeed.
func (f *field) operate(method, path, body string) string {
	f.t.Helper()
	code, text := f.web(method, path, body)
	if code >= http.StatusMultipleChoices {
		f.t.Fatalf("%s %s: status %d: %s", method, path, code, text)
	}
	return text
}

// count returns how many jobs of a queue are in a state.
func (f *field) count(queue, state string) int {
	f.t.Helper()
	code, text := f.web(http.MethodGet, "/api/v1/namespaces/default/queues/"+queue, "")
	if code == http.StatusNotFound {
		return 0
	}
	var q struct{ Counts map[string]int }
	if err := json.Unmarshal([]byte(text), &q); err != nil {
		f.t.Fatalf("%q: %v", text, err)
	}
	return q.Counts[state]
}

// await waits until so many jobs of a queue are in a state.
func (f *field) await(queue, state string, n int) {
	f.t.Helper()
	last := -1
	f.until(fmt.Sprintf("%d jobs of %s are %s", n, queue, state), func() bool {
		if now := f.count(queue, state); now != last {
			last = now
			if now != n {
				return false
			}
		}
		return last == n
	})
}

// soon returns a time by which n things that take as long each as do takes for a few will have been
// done, and then some.
func (f *field) soon(n int, do func(few int)) time.Time {
	f.t.Helper()
	few := min(n, 20*bulk)
	began := time.Now()
	do(few)
	each := time.Since(began) / time.Duration(few)
	return time.Now().Add(2*time.Duration(n)*each + 4*f.calm()).Truncate(time.Second)
}

// repeat returns n texts joined by commas.
func repeat(n int, each func(b *bytes.Buffer, i int)) string {
	var b bytes.Buffer
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		each(&b, i)
	}
	return b.String()
}
