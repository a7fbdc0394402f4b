package server

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"millrace/internal/statsd"
)

// statsdCollector returns where reports can be sent, and what receives the next packet of one.
func statsdCollector(t *testing.T) (addr string, next func() string) {
	t.Helper()
	c, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c.LocalAddr().String(), func() string {
		t.Helper()
		if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 1<<16)
		n, _, err := c.ReadFrom(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
}

// A report has the figures of all queues under Faktory's names.
func TestStatsd(t *testing.T) {
	t.Parallel()
	addr, next := statsdCollector(t)
	cfg := load(t, map[string]string{
		"statsd.addr": addr, "statsd.tags": "env:test", "statsd.latency_queues": "a", "web.metrics_queues": "3",
		"web.addr":     "127.0.0.1:0",
		"masenko.addr": "127.0.0.1:0, 127.0.0.1:0=tenant", "faktory.addr": "127.0.0.1:0",
	})
	r := start(t, cfg, Options{})
	want := []string{}
	for _, name := range []string{
		"processed", "failures", "scheduled", "retries", "dead", "working",
		"enqueued", "connections",
	} {
		want = append(want, "faktory."+name+":0|g|#env:test")
	}
	if got := strings.Split(next(), "\n"); !slices.Equal(got, want) {
		t.Errorf("the first report is %q", got)
	}
	addrs := map[string]string{}
	for _, g := range r.server.gates {
		addrs[g.config.Name()+" "+g.config.Namespace] = g.Addr().String()
	}
	c := dial(t, addrs["masenko default"])
	for i, queue := range []string{"a", "a", "a", "a", "b"} {
		c.expect(t, fmt.Sprintf(`PUSH {"name":"n","queue":%q}`, queue), fmt.Sprintf(`OK {"id":%d}`, i+1))
	}
	tenant := dial(t, addrs["masenko tenant"])
	tenant.expect(t, `PUSH {"name":"n","queue":"a"}`, `OK {"id":6}`)
	tenant.expect(t, `PUSH {"name":"n","queue":"beyond"}`, `OK {"id":7}`)
	for i := range 2 {
		c.expect(t, `FETCH {"queues":["a"],"timeout":"1s"}`, fmt.Sprintf(`OK {"id":%d,"queue":"a","name":"n"}`, i+1))
	}
	c.expect(t, `ACK {"id":1}`, "OK {}")
	f := dial(t, addrs["faktory default"])
	f.hear(t, `+HI {"v":2}`)
	f.expect(t, `HELLO {"v":2}`, "+OK")
	f.expect(t, `PUSH {"jid":"12345678","jobtype":"t","queue":"b","args":[]}`, "+OK")
	for range 2 { // of b, the first of which is another protocol's
		f.send(t, "FETCH b")
		for range 2 { // the size and the job
			if _, err := f.r.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
	}
	f.expect(t, `FAIL {"jid":"12345678","errtype":"E","message":"m"}`, "+OK")
	gauges, err := r.server.gauges()
	if err != nil {
		t.Fatal(err)
	}
	got, latencies := map[string]float64{}, 0
	for _, g := range gauges {
		if g.Name == "queue.latency" && g.Value > 0 {
			g.Value = 1
			latencies++
		}
		got[strings.Join(append([]string{g.Name}, g.Tags...), " ")] = g.Value
	}
	wantGauges := map[string]float64{
		"processed": 2, "failures": 1, "scheduled": 0, "retries": 1, "dead": 0, "working": 2,
		"enqueued": 4, "connections": 3,
		"queue.size queue:a namespace:default": 2, "queue.size queue:b namespace:default": 0,
		"queue.size queue:a namespace:tenant":     1,
		"queue.latency queue:a namespace:default": 1, "queue.latency queue:a namespace:tenant": 1,
	}
	if !maps.Equal(got, wantGauges) || latencies != 2 {
		t.Errorf("the gauges are %v", got)
	}
	if text := get(t, "http://"+addrs["web "]+"/metrics"); !strings.Contains(text,
		"\nmillrace_statsd_failures_total 0\n") {
		t.Error("failures are not told")
	}
	r.signals <- syscall.SIGTERM
	if err := r.stop(t); err != nil {
		t.Error(err)
	}
}

// Without an address there is nothing that could report, and no figure of it.
func TestStatsdOff(t *testing.T) {
	t.Parallel()
	r := start(t, load(t, map[string]string{"web.addr": "127.0.0.1:0"}), Options{})
	if r.server.statsd != nil || len(r.server.reporting(t.Context(), nil)) != 0 {
		t.Error("something reports")
	}
	if text := get(t, "http://"+r.addr(1)+"/metrics"); strings.Contains(text, "statsd") {
		t.Error("failures are told of reports that are not made")
	}
}

// Of a cluster only the node that leads reports.
func TestStatsdOfLeader(t *testing.T) {
	t.Parallel()
	addr, next := statsdCollector(t)
	all, names := make([]*running, 3), make([]string, 3)
	for i, flags := range nodes(t, len(all), map[string]string{"statsd.addr": addr}) {
		names[i] = statsd.Tag("node", flags["cluster.node"])
		flags["statsd.tags"] = names[i]
		all[i] = start(t, load(t, flags), Options{})
	}
	reports := func() {
		t.Helper()
		until(t, "the leader reports", func() bool {
			leads := leader(t, all)
			return strings.Contains(next(), "faktory.processed:0|g|#"+names[leads]+"\n")
		})
	}
	first := leader(t, all)
	reports()
	all[first].signals <- syscall.SIGTERM
	if err := all[first].stop(t); err != nil {
		t.Error(err)
	}
	all[first] = nil
	reports()
}
