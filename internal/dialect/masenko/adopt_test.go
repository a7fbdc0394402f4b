package masenko

import (
	"testing"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/job"
	"millrace/internal/testkit/adopttest"
)

// TestAdopt takes over tasks in every state: those that have waited come first, as the protocol has it.
func TestAdopt(t *testing.T) {
	t.Parallel()
	e := adopttest.Engine(t)
	d := New(Options{Options: dialect.Options{Engine: e, Namespace: "ns"}})
	now := job.TimeOf(time.Now())
	for _, c := range []struct {
		a    dialect.Arrival
		want job.State
	}{
		{dialect.Arrival{Type: "d", State: "ready", Text: []byte(`{"a":1.50}`)}, job.Ready},
		{dialect.Arrival{Type: "b", State: "ready", RunAt: now - 1e6, Fails: 2, Text: []byte("null")}, job.Ready},
		{dialect.Arrival{Type: "a", State: "ready", RunAt: now - 2e6}, job.Ready},
		{dialect.Arrival{Type: "e", State: "leased"}, job.Ready},
		{dialect.Arrival{Type: "f", State: "scheduled", RunAt: now + 1e9}, job.Scheduled},
		{dialect.Arrival{Type: "g", State: "retrying", RunAt: now + 1e9, Fails: 3}, job.Retrying},
	} {
		c.a.Queue, c.a.MaxFails, c.a.DeadQueue = "q", 21, "dead"
		j, lost := adopttest.Take(t, e, d, &c.a)
		if lost != "" || j.State != c.want || j.Fails != c.a.Fails || j.Type != c.a.Type ||
			string(j.Body) != string(c.a.Text) ||
			j.Policy.MaxFails != 21 ||
			j.Policy.DeadQueue != "dead" {
			t.Errorf("%+v: %+v", c.a, j)
		}
	}
	order := adopttest.Order(t, e, 4, func(j *job.Job) string { return j.Type })
	if order != "abde" {
		t.Errorf("order %s", order)
	}
}

// TestAdoptRefused names what is wrong.
func TestAdoptRefused(t *testing.T) {
	t.Parallel()
	d := New(Options{Options: dialect.Options{Namespace: "ns"}, MaxPayload: 10})
	adopttest.Refused(t, d, []adopttest.Refusal{
		{Arrival: dialect.Arrival{Queue: "q", State: "ready", MaxFails: 1}, Want: "no name"},
		{Arrival: dialect.Arrival{Queue: "\xff", Type: "t", State: "ready", MaxFails: 1}, Want: "no name"},
		{Arrival: dialect.Arrival{Queue: "q", Type: "t", DeadQueue: "!", State: "ready", MaxFails: 1}, Want: "no name"},
		{
			Arrival: dialect.Arrival{Queue: "q", Type: "t", State: "ready", MaxFails: 1, Text: make([]byte, 11)},
			Want:    "more than",
		},
		{Arrival: dialect.Arrival{Queue: "q", Type: "t", State: "ready", MaxFails: 300}, Want: "out of range"},
		{Arrival: dialect.Arrival{Queue: "q", Type: "t", State: "blocked", MaxFails: 1}, Want: "no job can arrive in"},
	})
}
