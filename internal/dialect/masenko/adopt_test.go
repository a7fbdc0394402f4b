package masenko

import (
	"strings"
	"testing"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/store/memstore"
)

// TestAdopt takes over tasks in every state: those that have waited come first, as the protocol has it.
func TestAdopt(t *testing.T) {
	t.Parallel()
	e, err := engine.Open(engine.Options{Store: memstore.New(), Durability: engine.DurabilityNone})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close() //nolint:errcheck // in memory
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
		cmd, lost, err := d.Adopt(&c.a)
		if err != nil || lost != "" {
			t.Errorf("%+v: %q, %v", c.a, lost, err)
			continue
		}
		r := e.NewCaller().Do(t.Context(), cmd)[0]
		if r.Err != nil {
			t.Errorf("%+v: %v", c.a, r.Err)
			continue
		}
		j, err := e.Get(job.ByID("ns", "q", r.ID))
		if err != nil {
			t.Fatal(err)
		}
		if j.State != c.want || j.Fails != c.a.Fails || j.Type != c.a.Type || string(j.Body) != string(c.a.Text) ||
			j.Policy.MaxFails != 21 ||
			j.Policy.DeadQueue != "dead" {
			t.Errorf("%+v: %+v", c.a, j)
		}
	}
	order := ""
	for range 4 {
		r := e.NewCaller().Do(t.Context(), &job.Fetch{Namespace: "ns", Queues: []string{"q"}, Max: 1})[0]
		if r.Err != nil || len(r.Jobs) != 1 {
			t.Fatal(r.Err)
		}
		order += r.Jobs[0].Type
	}
	if order != "abde" {
		t.Errorf("order %s", order)
	}
}

// TestAdoptRefused names what is wrong.
func TestAdoptRefused(t *testing.T) {
	t.Parallel()
	d := New(Options{Options: dialect.Options{Namespace: "ns"}, MaxPayload: 10})
	for _, c := range []struct {
		a    dialect.Arrival
		want string
	}{
		{dialect.Arrival{Queue: "q", State: "ready", MaxFails: 1}, "no name"},
		{dialect.Arrival{Queue: "\xff", Type: "t", State: "ready", MaxFails: 1}, "no name"},
		{dialect.Arrival{Queue: "q", Type: "t", DeadQueue: "!", State: "ready", MaxFails: 1}, "no name"},
		{dialect.Arrival{Queue: "q", Type: "t", State: "ready", MaxFails: 1, Text: make([]byte, 11)}, "more than"},
		{dialect.Arrival{Queue: "q", Type: "t", State: "ready", MaxFails: 300}, "out of range"},
		{dialect.Arrival{Queue: "q", Type: "t", State: "blocked", MaxFails: 1}, "no job can arrive in"},
	} {
		if _, _, err := d.Adopt(&c.a); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.a, err)
		}
	}
}
