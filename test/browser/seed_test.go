package browser

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"millrace/test/harness"
)

// wire is a connection of a protocol whose lines end with CR LF.
type wire struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func dial(t *testing.T, addr string) *wire {
	t.Helper()
	conn, err := net.DialTimeout("tcp", addr, harness.Patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // the server may have closed it before
	return &wire{t, conn, bufio.NewReader(conn)}
}

// send sends lines.
func (w *wire) send(lines ...string) error {
	if err := w.conn.SetDeadline(time.Now().Add(harness.Patience)); err != nil {
		return err
	}
	_, err := io.WriteString(w.conn, strings.Join(lines, "\r\n")+"\r\n")
	return err
}

// read reads a line that must not be a refusal.
func (w *wire) read() (string, error) {
	line, err := w.in.ReadString('\n')
	if err == nil && strings.HasPrefix(line, "-") {
		err = fmt.Errorf("refused: %s", line)
	}
	return strings.TrimRight(line, "\r\n"), err
}

// ask sends lines and returns the first line of the answer.
func (w *wire) ask(lines ...string) string {
	w.t.Helper()
	if err := w.send(lines...); err != nil {
		w.t.Fatal(err)
	}
	return w.line()
}

func (w *wire) line() string {
	w.t.Helper()
	line, err := w.read()
	if err != nil {
		w.t.Fatal(err)
	}
	return line
}

// seedFaktory pushes jobs as a Faktory client, and holds some of them as a worker, whose connection it returns.
func seedFaktory(t *testing.T, addr string) *wire {
	t.Helper()
	w := dial(t, addr)
	w.line() // its greeting
	w.ask(`HELLO {"v":2,"hostname":"app-01","wid":"4qpc2443vpvai","pid":4711,"labels":["ruby","critical"]}`)
	w.ask(beat)
	for i := range 24 {
		w.ask(fmt.Sprintf(`PUSH {"jid":"mail-%04d","jobtype":"SendEmail","queue":"mailers","args":[{"to":"ann%d@example.com","template":"welcome"},%d],"retry":%d}`, i, i, i, []int{25, -1}[i%2]))
	}
	for i := range 6 {
		at := time.Now().Add(time.Duration(i+1) * time.Hour).UTC().Format(time.RFC3339)
		w.ask(fmt.Sprintf(`PUSH {"jid":"bill-%04d","jobtype":"ChargeCard","queue":"billing","args":[%d],"at":%q}`, i,
			1000+i, at))
	}
	for i := range 20 {
		w.ask("FETCH mailers") // the length; the job follows
		text := w.line()
		jid := text[strings.Index(text, "mail-"):][:9]
		if i < 16 {
			w.ask(fmt.Sprintf(`FAIL {"jid":%q,"errtype":"Net::ReadTimeout","message":"Net::ReadTimeout with #<TCPSocket:(closed)>","backtrace":["app/jobs/send_email.rb:42:in 'perform'","lib/worker.rb:17:in 'run'"]}`, jid))
		}
	}
	bid := w.ask(`BATCH NEW {"description":"Nightly import of customers","success":{"jid":"callback-0001","jobtype":"Report","args":[],"queue":"default"}}`)
	if strings.HasPrefix(bid, "$") {
		bid = w.line()
	}
	for i := range 3 {
		w.ask(fmt.Sprintf(`PUSH {"jid":"import-%04d","jobtype":"ImportRow","queue":"import","args":[%d],"custom":{"bid":%q}}`, i, i, bid))
	}
	w.ask("BATCH COMMIT " + bid)
	return w
}

// beat is the heartbeat of the worker.
const beat = `BEAT {"wid":"4qpc2443vpvai","rss_kb":187392}`

// seedWorkq adds jobs as a Workq client, and finishes some.
func seedWorkq(t *testing.T, addr string) {
	t.Helper()
	w := dial(t, addr)
	for i := range 8 {
		body := fmt.Sprintf(`{"ping":%d}`, i)
		id := fmt.Sprintf("6ba7b810-9dad-11d1-80b4-00c04fd4%04d", i)
		w.ask(fmt.Sprintf("add %s ping 60000 3600000 %d -max-fails=1", id, len(body)), body)
		if i%2 == 0 {
			w.ask("lease ping 1000")
			w.line()
			w.line()
			w.ask(fmt.Sprintf("complete %s 4", id), "pong")
		}
	}
}

// seedLMSTFY publishes jobs over HTTP, one of them with a body that tries to be a page.
func seedLMSTFY(t *testing.T, addr string) {
	t.Helper()
	for query, body := range map[string]string{
		"tries=3":            "plain text of a report",
		"tries=3&delay=7200": `{"report":"monthly","format":"pdf"}`,
		"tries=2":            `<script>document.title="owned"</script><img src=x onerror="document.title='owned'">`,
		"tries=1":            "\x00\x01\x02binary\xff",
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+addr+"/api/default/reports?"+query,
			strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := answer.Body.Close(); err != nil || answer.StatusCode != http.StatusCreated {
			t.Fatalf("%s: %s, %v", query, answer.Status, err)
		}
	}
}

// batch is a queue with many jobs that are alike.
type batch struct {
	queue string
	jobs  int
}

// seedMasenko pushes jobs as a Masenko client, many of them into a few queues.
func seedMasenko(t *testing.T, addr string, batches []batch) {
	t.Helper()
	c := dialMasenko(t, addr)
	for i := range 120 {
		if _, err := c.Do(fmt.Sprintf(`PUSH {"name":"ResizeImage","queue":"thumbnails","payload":{"image":%d,"width":640,"height":480}}`, i)); err != nil {
			t.Fatal(err)
		}
	}
	var before uint64
	reply, err := c.Do(`PUSH {"name":"<b>Before</b>","queue":"before","payload":"<script>document.title='owned'</script>"}`)
	if _, serr := fmt.Sscanf(reply, `OK {"id":%d}`, &before); err != nil || serr != nil {
		t.Fatalf("%q, %v, %v", reply, err, serr)
	}
	if _, err := c.Do(fmt.Sprintf(`PUSH {"name":"After","queue":"after","blocked_by":[%d]}`, before)); err != nil {
		t.Fatal(err)
	}
	const atOnce = 500
	for _, b := range batches {
		for sent := 0; sent < b.jobs; sent += atOnce {
			for i := range atOnce {
				c.QueuePush(b.queue, fmt.Sprintf("row %d", sent+i))
			}
			if err := c.Send(0); err != nil {
				t.Fatal(err)
			}
			for range atOnce {
				if _, err := c.ReplyID(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// seedTokens makes tokens as an operator, and limits one of them.
func seedTokens(t *testing.T, web string) {
	t.Helper()
	call := func(method, path, body string) string {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+web+"/api/v1/tokens"+path,
			strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		var made struct {
			ID string `json:"id"`
		}
		err = json.NewDecoder(answer.Body).Decode(&made)
		if err = errors.Join(err, answer.Body.Close()); err != nil || answer.StatusCode >= http.StatusBadRequest {
			t.Fatalf("%s %s: %s, %v", method, path, answer.Status, err)
		}
		return made.ID
	}
	for _, body := range []string{
		`{"namespace":"default","description":"nightly reports"}`,
		`{"namespace":"default","description":"image resizer"}`,
		`{"namespace":"billing","description":"invoices"}`,
	} {
		id := call(http.MethodPost, "", body)
		if strings.Contains(body, "nightly") {
			call(http.MethodPut, "/"+id+"/limits", `{"reads":600,"writes":0,"interval_seconds":60}`)
		}
	}
}

func dialMasenko(t *testing.T, addr string) *harness.Client {
	t.Helper()
	c, err := harness.Dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // the server may have closed it before
	return c
}

// keepBusy pushes, fetches and acknowledges jobs until the test ends, so that there is something to see, and
// keeps the worker alive.
func keepBusy(t *testing.T, addr string, worker *wire) {
	t.Helper()
	c := dialMasenko(t, addr)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- func() error {
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for i := 0; ; i++ {
				select {
				case <-ctx.Done():
					return nil
				case <-tick.C:
				}
				if i%250 == 0 {
					if err := worker.send(beat); err != nil {
						return err
					}
					// Once the worker has been told something, the answer is a length and a text.
					if line, err := worker.read(); err != nil || (strings.HasPrefix(line, "$") && !skip(worker)) {
						return fmt.Errorf("heartbeat: %q, %w", line, err)
					}
				}
				if _, err := c.Push("default", fmt.Sprintf("order %d", i)); err != nil {
					return err
				}
				j, ok, err := c.Fetch("default", time.Second)
				if err != nil {
					return err
				}
				if ok {
					if err := c.Ack(j.ID); err != nil {
						return err
					}
				}
			}
		}()
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// skip reads a line and throws it away.
func skip(w *wire) bool {
	_, err := w.read()
	return err == nil
}
