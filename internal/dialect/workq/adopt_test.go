package workq

import (
	"strings"
	"testing"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/store/memstore"
)

// TestAdopt takes over jobs in every state: they are worked on in the order of the protocol, and results are kept.
func TestAdopt(t *testing.T) {
	t.Parallel()
	e, err := engine.Open(engine.Options{Store: memstore.New(), Durability: engine.DurabilityNone})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close() //nolint:errcheck // in memory
	d := New(Options{Options: dialect.Options{Engine: e, Namespace: "ns"}})
	now := job.TimeOf(time.Now())
	key := func(n string) string { return "01234567-89ab-4def-8123-00000000000" + n }
	for _, c := range []struct {
		a    dialect.Arrival
		want job.State
	}{
		{dialect.Arrival{Key: key("1"), State: "ready", RunAt: now - 1e6}, job.Ready},
		{dialect.Arrival{Key: key("2"), State: "ready", RunAt: now - 2e6}, job.Ready},
		{dialect.Arrival{Key: strings.ToUpper(key("a")), State: "leased", Attempts: 2}, job.Ready},
		{dialect.Arrival{Key: key("4"), State: "ready", Priority: 7}, job.Ready},
		{dialect.Arrival{Key: key("5"), State: "scheduled", RunAt: now + 1e9}, job.Scheduled},
		{dialect.Arrival{Key: key("6"), State: "done", Result: []byte("r")}, job.Done},
		{dialect.Arrival{Key: key("7"), State: "failed", Result: []byte("f"), Fails: 1}, job.Failed},
	} {
		c.a.Queue, c.a.Body, c.a.TTL, c.a.TTR, c.a.MaxAttempts, c.a.MaxFails, c.a.ExpireAt = "q", []byte(
			"body",
		), 1<<40, 5*time.Second, 3, 2, now+1e10
		cmd, lost, err := d.Adopt(&c.a)
		if err != nil || lost != "" {
			t.Errorf("%+v: %q, %v", c.a, lost, err)
			continue
		}
		if r := e.NewCaller().Do(t.Context(), cmd)[0]; r.Err != nil {
			t.Errorf("%+v: %v", c.a, r.Err)
		}
		j, err := e.Get(job.ByKey("ns", strings.ToLower(c.a.Key)))
		if err != nil {
			t.Fatal(err)
		}
		ttl, maxFails, _ := readExtra(j.Extra)
		if j.State != c.want || j.Attempts != c.a.Attempts || string(j.Result) != string(c.a.Result) || string(j.Body) != "body" || ttl != 1<<40 || maxFails != 2 ||
			j.Policy.Lease != 5*time.Second || j.Policy.MaxAttempts != 3 ||
			j.Policy.ExpireAt != now+1e10 ||
			!j.Policy.Keep {
			t.Errorf("%+v: %+v", c.a, j)
		}
	}
	order := ""
	for range 4 {
		r := e.NewCaller().Do(t.Context(), &job.Fetch{Namespace: "ns", Queues: []string{"q"}, Max: 1})[0]
		if r.Err != nil || len(r.Jobs) != 1 {
			t.Fatal(r.Err)
		}
		order += r.Jobs[0].Key[len(r.Jobs[0].Key)-1:]
	}
	if order != "4a21" {
		t.Errorf("order %s", order)
	}
}

// TestAdoptRefused names what is wrong.
func TestAdoptRefused(t *testing.T) {
	t.Parallel()
	d := New(Options{Options: dialect.Options{Namespace: "ns"}, MaxPayload: 10})
	const key = "01234567-89ab-4def-8123-000000000001"
	for _, c := range []struct {
		a    dialect.Arrival
		want string
	}{
		{dialect.Arrival{Key: "x", Queue: "q", State: "ready", TTL: 1}, "no UUID"},
		{dialect.Arrival{Key: key, Queue: "a b", State: "ready", TTL: 1}, "no name"},
		{dialect.Arrival{Key: key, Queue: "q", State: "ready"}, "pushed by run"},
		{dialect.Arrival{Key: key, Queue: "q", State: "ready", TTL: 1, Body: make([]byte, 11)}, "more than"},
		{dialect.Arrival{Key: key, Queue: "q", State: "ready", TTL: 1, Priority: 1 << 40}, "out of range"},
		{dialect.Arrival{Key: key, Queue: "q", State: "blocked", TTL: 1}, "no job can arrive in"},
	} {
		if _, _, err := d.Adopt(&c.a); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.a, err)
		}
	}
}
