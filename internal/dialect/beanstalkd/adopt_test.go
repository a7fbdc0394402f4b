package beanstalkd

import (
	"testing"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/job"
	"millrace/internal/testkit/adopttest"
)

// TestAdopt takes over jobs in every state: they behave as those that were put here.
func TestAdopt(t *testing.T) {
	t.Parallel()
	d := New(Options{Options: dialect.Options{Namespace: "ns"}, MaxJob: 10})
	soon := job.TimeOf(time.Now().Add(time.Hour))
	for _, c := range []struct {
		a    dialect.Arrival
		want job.State
	}{
		{dialect.Arrival{Queue: "q", State: "ready"}, job.Ready},
		{dialect.Arrival{Queue: "q", State: "leased", Since: 7}, job.Ready},
		{dialect.Arrival{Queue: "q", State: "scheduled", RunAt: soon}, job.Scheduled},
		{dialect.Arrival{Queue: "q", State: "buried", Buries: 2}, job.Buried},
	} {
		c.a.Priority, c.a.TTR, c.a.Body, c.a.Kicks = 5, 90*time.Second, []byte("body"), 3
		cmd, lost, err := d.Adopt(&c.a)
		p, ok := cmd.(*job.Push)
		if err != nil || lost != "" || !ok {
			t.Errorf("%s: %v, %q, %v", c.a.State, cmd, lost, err)
			continue
		}
		s := &p.Spec
		if p.Past.State != c.want || p.Past.Since != 0 || p.Past.Kicks != 3 || p.Past.Buries != c.a.Buries ||
			p.Past.BuriedLast != (c.want == job.Buried) || s.RunAt != c.a.RunAt ||
			s.Policy.Priority != -5 || s.Policy.Lease != 90*time.Second || !s.Numbered || s.Namespace != "ns" ||
			string(s.Body) != "body" {
			t.Errorf("%s: %+v, %+v", c.a.State, s, p.Past)
		}
	}
	cmd, _, err := d.Adopt(&dialect.Arrival{Queue: "q", State: dialect.StatePaused, RunAt: soon})
	if p, ok := cmd.(*job.Pause); err != nil || !ok || p.For < 59*time.Minute ||
		p.For > time.Hour+time.Second || !p.Make {
		t.Errorf("%+v, %v", cmd, err)
	}
	adopttest.Refused(t, d, []adopttest.Refusal{
		{Arrival: dialect.Arrival{Queue: "a b", State: "ready"}, Want: "no name of a tube"},
		{Arrival: dialect.Arrival{Queue: "q", State: "ready", Body: make([]byte, 11)}, Want: "more than"},
		{Arrival: dialect.Arrival{Queue: "q", State: "blocked"}, Want: "no job can arrive in"},
	})
}
