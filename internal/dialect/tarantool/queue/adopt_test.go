package queue

import (
	"strings"
	"testing"
	"time"

	"github.com/tinylib/msgp/msgp"

	"millrace/internal/dialect"
	"millrace/internal/dialect/tarantool/proc"
	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/store/memstore"
)

// TestAdopt takes over tubes and tasks in every state: they are taken in the order of the protocol.
func TestAdopt(t *testing.T) {
	t.Parallel()
	e, err := engine.Open(engine.Options{Store: memstore.New(), Durability: engine.DurabilityNone})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close() //nolint:errcheck // in memory
	d := New(e, "ns", 64<<20, 0)
	options := msgp.AppendMapHeader(nil, 2)
	options = msgp.AppendInt(msgp.AppendString(options, "capacity"), 9)
	options = msgp.AppendInt(msgp.AppendString(options, "ttl"), 60)
	for name, kind := range map[string]string{"q": "utubettl", "lim": "limfifottl"} {
		cmd, _, err := d.Adopt(&dialect.Arrival{Queue: name, State: dialect.StateQueue, Type: kind, Body: options})
		if err != nil {
			t.Fatal(err)
		}
		if r := e.NewCaller().Do(t.Context(), cmd)[0]; r.Err != nil {
			t.Fatal(r.Err)
		}
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
		if j.State != c.want || j.Group == "" || !r.HasSerial || string(proc.AppendBody(nil, j.BodyKind, j.Body)) != string(c.a.Body) || j.Created != now-1e10 ||
			j.Policy.Lease != 90*time.Second ||
			j.Policy.ExpireAt != now+1e10 ||
			j.Policy.Priority != -c.a.Priority {
			t.Errorf("%+v: %+v", c.a, j)
		}
	}
	order := ""
	for range 3 {
		r := e.NewCaller().Do(t.Context(), &job.Fetch{Namespace: "ns", Queues: []string{"q"}, Max: 1})[0]
		if r.Err != nil || len(r.Jobs) != 1 {
			t.Fatal(r.Err)
		}
		order += string(r.Jobs[0].Body)
	}
	if order != "acd" {
		t.Errorf("order %s", order)
	}
}

// TestAdoptRefused names what is wrong.
func TestAdoptRefused(t *testing.T) {
	t.Parallel()
	d := New(nil, "ns", 10, 0)
	for _, c := range []struct {
		a    dialect.Arrival
		want string
	}{
		{dialect.Arrival{Queue: "a b", State: "ready", Body: []byte{0xc0}}, "no name of a tube"},
		{dialect.Arrival{Queue: "q", State: "ready", Body: []byte{0xc0, 0xc0}}, "no MessagePack"},
		{dialect.Arrival{Queue: "q", State: "ready", Body: msgp.AppendString(nil, "0123456789")}, "more than"},
		{dialect.Arrival{Queue: "q", State: "blocked", Body: []byte{0xc0}}, "no job can arrive in"},
		{dialect.Arrival{Queue: "q", State: "queue", Type: "lifo", Body: []byte{0x80}}, "no tubes of the type"},
		{dialect.Arrival{Queue: "q", State: "queue", Type: "fifottl", Body: []byte{0x81, 0xa3, 't', 't', 'l', 0xa1, 'x'}}, "Invalid value of ttl"},
	} {
		if _, _, err := d.Adopt(&c.a); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.a, err)
		}
	}
}
