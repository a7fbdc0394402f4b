package lmstfy

import (
	"strings"
	"testing"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/job"
	"millrace/internal/testkit/adopttest"
)

// TestAdopt takes over jobs of every kind, and names what is wrong with others.
func TestAdopt(t *testing.T) {
	t.Parallel()
	d := New(Options{Pools: []string{"fast"}, MaxBody: 10})
	const id = "01HKZZZZZZ0000000000000000"
	soon := job.TimeOf(time.Now().Add(time.Hour))
	for _, c := range []struct {
		name string
		a    dialect.Arrival
		want job.Spec
		past job.Past
	}{
		{
			"ready",
			dialect.Arrival{State: "ready", Pool: "default", Body: []byte("b"), Tries: 3, ExpireAt: soon},
			job.Spec{Namespace: "ns", Body: []byte("b"), Policy: job.Policy{MaxAttempts: 3, ExpireAt: soon}},
			job.Past{State: job.Ready},
		},
		{
			"another pool",
			dialect.Arrival{State: "scheduled", Pool: "fast", RunAt: soon, Tries: 1},
			job.Spec{Namespace: "fast:ns", RunAt: soon, Policy: job.Policy{MaxAttempts: 1}},
			job.Past{State: job.Scheduled},
		},
		{
			"dead",
			dialect.Arrival{State: "dead", Pool: "default", Tries: 1},
			job.Spec{Namespace: "ns", Policy: job.Policy{MaxAttempts: 1}},
			job.Past{State: job.Dead, Attempts: 1},
		},
		{
			"attributes",
			dialect.Arrival{
				State: "ready", Pool: "default",
				Text: []byte(`{"body":"Yg==","attributes":{"b":"2","a":"1"}}`),
			},
			job.Spec{
				Namespace: "ns", Body: []byte("b"), Extra: []byte(`{"a":"1","b":"2"}`),
				Policy: job.Policy{MaxAttempts: 1},
			},
			job.Past{State: job.Ready},
		},
	} {
		c.a.ID, c.a.Namespace, c.a.Queue = id, "ns", "q"
		cmd, lost, err := d.Adopt(&c.a)
		p, ok := cmd.(*job.Push)
		if err != nil || lost != "" || !ok {
			t.Errorf("%s: %v, %q, %v", c.name, cmd, lost, err)
			continue
		}
		s := &p.Spec
		if s.Namespace != c.want.Namespace || s.Queue != "q" || s.Key != id || string(s.Body) != string(c.want.Body) ||
			s.Body == nil || string(s.Extra) != string(c.want.Extra) ||
			s.RunAt != c.want.RunAt || s.Policy.MaxAttempts != c.want.Policy.MaxAttempts ||
			s.Policy.ExpireAt != c.want.Policy.ExpireAt || !s.Policy.DeadSlots {
			t.Errorf("%s: %+v", c.name, s)
		}
		if p.Past.State != c.past.State || p.Past.Attempts != c.past.Attempts || p.Past.Created.Std().Year() < 2023 {
			t.Errorf("%s: %+v", c.name, p.Past)
		}
	}
	adopttest.Refused(t, d, []adopttest.Refusal{
		{Arrival: dialect.Arrival{Pool: "none", Namespace: "ns", Queue: "q"}, Want: "lmstfy.pools"},
		{Arrival: dialect.Arrival{Pool: "default", Namespace: "n/s", Queue: "q"}, Want: textNamespace},
		{Arrival: dialect.Arrival{Pool: "default", Namespace: "ns", Queue: "a b"}, Want: "no name of a queue"},
		{
			Arrival: dialect.Arrival{Pool: "default", Namespace: "ns", Queue: "q", ID: strings.Repeat("x", 300)},
			Want:    "too long",
		},
		{
			Arrival: dialect.Arrival{Pool: "default", Namespace: "ns", Queue: "q", State: "what"},
			Want:    "no job can arrive in",
		},
		{
			Arrival: dialect.Arrival{Pool: "default", Namespace: "ns", Queue: "q", State: "ready", Text: []byte("[]")},
			Want:    "payload cannot be read",
		},
		{
			Arrival: dialect.Arrival{
				Pool: "default", Namespace: "ns", Queue: "q", State: "ready",
				Body: make([]byte, 11),
			},
			Want: "lmstfy.max_body",
		},
	})
}
