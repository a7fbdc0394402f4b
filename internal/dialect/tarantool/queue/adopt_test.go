package queue

import (
	"testing"
	"time"

	"github.com/tinylib/msgp/msgp"

	"millrace/internal/dialect"
	"millrace/internal/dialect/tarantool/proc"
	"millrace/internal/job"
	"millrace/internal/testkit/adopttest"
)

// TestAdopt takes over tubes and tasks in every state: they are taken in the order of the protocol.
func TestAdopt(t *testing.T) {
	t.Parallel()
	e := adopttest.Engine(t)
	d := New(e, "ns", 64<<20, 0)
	options := msgp.AppendMapHeader(nil, 2)
	options = msgp.AppendInt(msgp.AppendString(options, "capacity"), 9)
	options = msgp.AppendInt(msgp.AppendString(options, "ttl"), 60)
	for name, kind := range map[string]string{"q": "utubettl", "lim": "limfifottl"} {
		adopttest.Do(t, e, d, &dialect.Arrival{Queue: name, State: dialect.StateQueue, Type: kind, Body: options})
		q, _, err := e.Queue("ns", name)
		if tube := newTube(
			name,
			&q.Settings,
		); err != nil || kindNames[tube.kind] != kind || tube.ttl != time.Minute ||
			(q.Settings.Capacity == 9) != (name == "lim") {
			t.Errorf("%+v, %+v, %v", tube, q.Settings, err)
		}
	}
	now := job.TimeOf(time.Now())
	for _, c := range []struct {
		a    dialect.Arrival
		want job.State
	}{
		{dialect.Arrival{Priority: 5, State: "ready", Body: msgp.AppendString(nil, "c"), Group: "g"}, job.Ready},
		{dialect.Arrival{Priority: 5, State: "leased", Body: msgp.AppendString(nil, "d")}, job.Ready},
		{dialect.Arrival{Priority: 1, State: "ready", Body: msgp.AppendString(nil, "a"), Group: "h"}, job.Ready},
		{dialect.Arrival{Priority: 1, State: "scheduled", RunAt: now + 1e9, Body: []byte{0xc0}}, job.Scheduled},
		{dialect.Arrival{Priority: 1, State: "buried", Body: []byte{0x92, 1, 0xca, 0, 0, 0, 0}}, job.Buried},
	} {
		c.a.Queue, c.a.Type, c.a.TTR, c.a.ExpireAt, c.a.Created = "q", "utubettl", 90*time.Second, now+1e10, now-1e10
		j, lost := adopttest.Take(t, e, d, &c.a)
		if lost != "" || j.State != c.want || j.Group == "" || !j.Flags.Has(job.FlagSerial) ||
			string(proc.AppendBody(nil, j.BodyKind, j.Body)) != string(c.a.Body) || j.Created != now-1e10 ||
			j.Policy.Lease != 90*time.Second ||
			j.Policy.ExpireAt != now+1e10 ||
			j.Policy.Priority != -c.a.Priority {
			t.Errorf("%+v: %+v", c.a, j)
		}
	}
	order := adopttest.Order(t, e, 3, func(j *job.Job) string { return string(j.Body) })
	if order != "acd" {
		t.Errorf("order %s", order)
	}
}

// TestAdoptRefused names what is wrong.
func TestAdoptRefused(t *testing.T) {
	t.Parallel()
	d := New(nil, "ns", 10, 0)
	adopttest.Refused(t, d, []adopttest.Refusal{
		{Arrival: dialect.Arrival{Queue: "a b", State: "ready", Body: []byte{0xc0}}, Want: "no name of a tube"},
		{Arrival: dialect.Arrival{Queue: "q", State: "ready", Body: []byte{0xc0, 0xc0}}, Want: "no MessagePack"},
		{
			Arrival: dialect.Arrival{Queue: "q", State: "ready", Body: msgp.AppendString(nil, "0123456789")},
			Want:    "more than",
		},
		{Arrival: dialect.Arrival{Queue: "q", State: "blocked", Body: []byte{0xc0}}, Want: "no job can arrive in"},
		{
			Arrival: dialect.Arrival{Queue: "q", State: "queue", Type: "lifo", Body: []byte{0x80}},
			Want:    "no tubes of the type",
		},
		{Arrival: dialect.Arrival{
			Queue: "q", State: "queue", Type: "fifottl",
			Body: []byte{0x81, 0xa3, 't', 't', 'l', 0xa1, 'x'},
		}, Want: "Invalid value of ttl"},
	})
}
