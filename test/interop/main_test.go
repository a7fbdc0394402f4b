package interop

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	// The server is run as a process, which the go tool cannot see: without
	// this import it would call a test result of an older server current.
	_ "millrace/internal/cli"
	"millrace/internal/dialect/dialecttest"
	"millrace/test/harness"
	"millrace/test/suite"
)

// program is the server under test.
var program = suite.Program{Env: []string{"MILLRACE_TARANTOOL15_ADDR=127.0.0.1:0"}}

func TestMain(m *testing.M) { os.Exit(suite.Main(m, &program)) }

const (
	namespace = "default"
	// patience bounds everything that a test waits for.
	patience = 20 * time.Second
)

// listener is where a driver's protocol is spoken.
func listener(d dialecttest.Driver) string {
	switch d.Name {
	case "tarantool-legacy":
		return "tarantool"
	case "rest":
		return "web"
	}
	return d.Name
}

// world is a server with a client of each protocol and the operator.
type world struct {
	t       *testing.T
	server  *harness.Server
	drivers []dialecttest.Driver
	clients map[string]dialecttest.Client // by the name of the driver
	op      operator
}

// start starts a server of the test's own. Durability is not what is tested here.
func start(t *testing.T, args ...string) *world {
	t.Helper()
	w := &world{t: t, drivers: dialecttest.Drivers(), clients: make(map[string]dialecttest.Client)}
	listeners := []string{"web"}
	for _, d := range w.drivers {
		if l := listener(d); !slices.Contains(listeners, l) {
			listeners = append(listeners, l)
		}
	}
	s := suite.Start(t, harness.Options{
		Bin: program.Bin, Env: program.Env, Listener: listeners[0], Also: listeners[1:],
		Args: append([]string{
			"serve", "--data-dir", suite.DataDir(t), "--store-durability=none",
			"--lmstfy-max-body=4MiB", "--workq-max-payload=4MiB", "--beanstalkd-max-job-size=4MiB",
		}, args...),
	})
	w.server, w.op = s, operator{t: t, base: "http://" + s.Addrs["web"] + "/api/v1"}
	for _, d := range w.drivers {
		w.clients[d.Name] = w.dial(d)
	}
	return w
}

// conn returns a connection to a listener, for the length of the test.
func (w *world) conn(listener string) net.Conn {
	w.t.Helper()
	conn, err := net.DialTimeout("tcp", w.server.Addrs[listener], patience)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = conn.Close() }) // the test may have closed it
	if err := conn.SetDeadline(time.Now().Add(3 * patience)); err != nil {
		w.t.Fatal(err)
	}
	return conn
}

// dial returns a client on a connection of its own.
func (w *world) dial(d dialecttest.Driver) dialecttest.Client {
	w.t.Helper()
	c, err := d.Client(w.conn(listener(d)))
	if err != nil {
		w.t.Fatalf("%s: %v", d.Name, err)
	}
	return c
}

// must ends the test if something that has to work does not.
func (w *world) must(what string, err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("%s: %v", what, err)
	}
}

// look compares what every protocol, and the operator, tells about a queue, which is
// the only one that has jobs that are delayed, held or dead.
func (w *world) look(queue string, want dialecttest.Sight) {
	w.t.Helper()
	sights := map[string]dialecttest.Sight{}
	for _, d := range w.drivers {
		s, err := w.clients[d.Name].Look(queue)
		w.must(d.Name+" looks at "+queue, err)
		sights[d.Name] = s
	}
	for name, s := range sights {
		if !same(s.Ready, want.Ready) || !same(s.Delayed, want.Delayed) || !same(s.Held, want.Held) ||
			!same(s.Dead, want.Dead) {
			w.t.Errorf("%s says of %s %+v, want %+v", name, queue, s, want)
		}
	}
}

func same(told, want int) bool { return told == dialecttest.Untold || told == want }

// empty removes a queue, so that the sums over all queues are those of the next one.
func (w *world) empty(queue string) {
	w.t.Helper()
	w.op.call(http.MethodDelete, "/namespaces/"+namespace+"/queues/"+queue, nil, nil)
}

// operator is the HTTP API of operators.
type operator struct {
	t    *testing.T
	base string
}

// call sends a request and decodes the answer, which must be a success.
func (o operator) call(method, path string, in, out any) {
	o.t.Helper()
	if status, answer := o.try(method, path, in, out); status >= http.StatusMultipleChoices {
		o.t.Fatalf("%s %s: status %d: %s", method, path, status, answer)
	}
}

// try is call for what may be refused.
func (o operator) try(method, path string, in, out any) (int, string) {
	o.t.Helper()
	var body io.Reader = http.NoBody
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			o.t.Fatal(err)
		}
		body = strings.NewReader(string(text))
	}
	req, err := http.NewRequestWithContext(o.t.Context(), method, o.base+path, body)
	if err != nil {
		o.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		o.t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was read to its end
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		o.t.Fatal(err)
	}
	if out != nil && resp.StatusCode < http.StatusMultipleChoices {
		if err := json.Unmarshal(answer, out); err != nil {
			o.t.Fatalf("%s %s: %v in %.200s", method, path, err, answer)
		}
	}
	return resp.StatusCode, string(answer)
}

// counts returns the jobs of a queue by state; none if there is no such queue.
func (o operator) counts(queue string) map[string]int {
	o.t.Helper()
	var q struct {
		Counts map[string]int `json:"counts"`
	}
	if status, answer := o.try(http.MethodGet, "/namespaces/"+namespace+"/queues/"+queue, nil,
		&q); status >= http.StatusMultipleChoices && status != http.StatusNotFound {
		o.t.Fatalf("queue %s: %s", queue, answer)
	}
	return q.Counts
}

func (o operator) look(queue string) dialecttest.Sight {
	o.t.Helper()
	c := o.counts(queue)
	return dialecttest.Sight{
		Ready: c["ready"], Delayed: c["scheduled"] + c["retrying"], Held: c["running"], Dead: c["dead"] + c["buried"],
	}
}

// jobRow is what the operator's list tells about a job.
type jobRow struct {
	ID       uint64 `json:"id"`
	State    string `json:"state"`
	PushedBy string `json:"pushed_by"`
	BodyKind string `json:"body_kind"`
	Lease    *struct {
		FetchedBy string `json:"fetched_by"`
		Exclusive bool   `json:"exclusive"`
	} `json:"lease"`
}

// jobs lists the jobs of a queue.
func (o operator) jobs(queue string) []jobRow {
	o.t.Helper()
	var page struct {
		Jobs []jobRow `json:"jobs"`
	}
	o.call(http.MethodGet, "/jobs?namespace="+namespace+"&queue="+url.QueryEscape(queue), nil, &page)
	return page.Jobs
}

// only returns the one job of a queue.
func (o operator) only(queue string) jobRow {
	o.t.Helper()
	all := o.jobs(queue)
	if len(all) != 1 {
		o.t.Fatalf("queue %s has %d jobs, want one", queue, len(all))
	}
	return all[0]
}

// act does something to the one job of a queue.
func (o operator) act(queue, action string) {
	o.t.Helper()
	j := o.only(queue)
	o.call(http.MethodPost, fmt.Sprintf("/namespaces/%s/jobs/%d/actions", namespace, j.ID),
		map[string]any{"action": action, "state": j.State, "queue": queue}, nil)
}
