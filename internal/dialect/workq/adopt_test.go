package workq

import (
	"strings"
	"testing"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/job"
	"millrace/internal/testkit/adopttest"
)

// TestAdopt takes over jobs in every state: they are worked on in the order of the protocol, and results are kept.
func TestAdopt(t *testing.T) {
	t.Parallel()
	e := adopttest.Engine(t)
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
		j, lost := adopttest.Take(t, e, d, &c.a)
		ttl, maxFails, _ := readExtra(j.Extra)
		if lost != "" || j.Key != strings.ToLower(c.a.Key) || j.State != c.want || j.Attempts != c.a.Attempts ||
			string(j.Result) != string(c.a.Result) || string(j.Body) != "body" || ttl != 1<<40 || maxFails != 2 ||
			j.Policy.Lease != 5*time.Second || j.Policy.MaxAttempts != 3 ||
			j.Policy.ExpireAt != now+1e10 ||
			!j.Policy.Keep {
			t.Errorf("%+v: %+v", c.a, j)
		}
	}
	order := adopttest.Order(t, e, 4, func(j *job.Job) string { return j.Key[len(j.Key)-1:] })
	if order != "4a21" {
		t.Errorf("order %s", order)
	}
}

// TestAdoptRefused names what is wrong.
func TestAdoptRefused(t *testing.T) {
	t.Parallel()
	d := New(Options{Options: dialect.Options{Namespace: "ns"}, MaxPayload: 10})
	const key = "01234567-89ab-4def-8123-000000000001"
	adopttest.Refused(t, d, []adopttest.Refusal{
		{Arrival: dialect.Arrival{Key: "x", Queue: "q", State: "ready", TTL: 1}, Want: "no UUID"},
		{Arrival: dialect.Arrival{Key: key, Queue: "a b", State: "ready", TTL: 1}, Want: "no name"},
		{Arrival: dialect.Arrival{Key: key, Queue: "q", State: "ready"}, Want: "pushed by run"},
		{
			Arrival: dialect.Arrival{Key: key, Queue: "q", State: "ready", TTL: 1, Body: make([]byte, 11)},
			Want:    "more than",
		},
		{
			Arrival: dialect.Arrival{Key: key, Queue: "q", State: "ready", TTL: 1, Priority: 1 << 40},
			Want:    "out of range",
		},
		{Arrival: dialect.Arrival{Key: key, Queue: "q", State: "blocked", TTL: 1}, Want: "no job can arrive in"},
	})
}
