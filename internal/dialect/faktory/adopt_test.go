package faktory

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/job"
	"millrace/internal/testkit/adopttest"
)

// TestAdopt takes over jobs in every state, and shows them to a worker.
func TestAdopt(t *testing.T) {
	t.Parallel()
	e := adopttest.Engine(t)
	d := New(Options{Options: dialect.Options{Engine: e, Namespace: "ns"}})
	soon := job.TimeOf(time.Now().Add(time.Hour))
	for _, c := range []struct {
		name string
		a    dialect.Arrival
		want job.State
		show string // what the JSON of the job has
		lost string
	}{
		{
			"ready",
			dialect.Arrival{State: "ready", Text: []byte(
				`{"retry":3,"jid":"0123456789","queue":"q","jobtype":"T","created_at":"2024-01-02T03:04:05Z","args":[ 1 ],"custom":{"a":"b"},"own":7}`)},
			job.Ready, `"queue":"q","jobtype":"T","args":[1],"own":7,"retry":3,"created_at":"2024-01-02T03:04:05Z","custom":{"a":"b"}}`, "",
		},
		{"held", dialect.Arrival{State: "leased", Text: []byte(`{"jid":"0123456789","queue":"q","jobtype":"T","args":[]}`)}, job.Ready, `"args":[]`, ""},
		{"scheduled", dialect.Arrival{State: "scheduled", RunAt: soon, Text: []byte(
			`{"jid":"0123456789","queue":"q","jobtype":"T","args":[],"at":"2024-01-02T03:04:05Z"}`)}, job.Scheduled, `"at":"2024-01-02T03:04:05Z"`, ""},
		{
			"retrying",
			dialect.Arrival{State: "retrying", RunAt: soon, Text: []byte(`{"jid":"0123456789","queue":"q","jobtype":"T","args":[],"retry":5,
			"failure":{"retry_count":2,"remaining":3,"failed_at":"2024-01-02T03:04:05Z","message":"m","errtype":"E","backtrace":["a","b"]}}`)},
			job.Retrying, `"failure":{"retry_count":2,"remaining":3,"failed_at":"2024-01-02T03:04:05Z","next_at":`, "",
		},
		{"dead", dialect.Arrival{State: "dead", Since: job.TimeOf(time.Now()), Text: []byte(
			`{"jid":"0123456789","queue":"q","jobtype":"T","args":[],"failure":{"retry_count":25,"message":"m"}}`)}, job.Dead, `"retry_count":25`, ""},
		{
			"locked",
			dialect.Arrival{State: "ready", Text: []byte(
				`{"jid":"0123456789","queue":"q","jobtype":"T","args":[],"custom":{"unique_for":60,"bid":"b-0000000000000001"}}`)},
			job.Ready, `"unique_for":60`, "its unique lock",
		},
	} {
		c.a.Queue = "q"
		j, lost := adopttest.Take(t, e, d, &c.a)
		text := string(appendJob(nil, &j))
		if j.State != c.want || !strings.Contains(text, c.show) || !json.Valid([]byte(text)) || strings.Count(text, `"failure"`) > 1 {
			t.Errorf("%s: %s\n%s\nwant %s", c.name, j.State, text, c.show)
		}
		if (lost == "") != (c.lost == "") || !strings.HasPrefix(lost, c.lost) {
			t.Errorf("%s: lost %q, want %q", c.name, lost, c.lost)
		}
	}
	cmd, _, err := d.Adopt(&dialect.Arrival{State: dialect.StatePaused, Queue: "still"})
	if p, ok := cmd.(*job.Pause); err != nil || !ok || p.Queue != "still" || p.Namespace != "ns" || !p.Make {
		t.Errorf("%+v, %v", cmd, err)
	}
}

// TestAdoptRefused names what is wrong.
func TestAdoptRefused(t *testing.T) {
	t.Parallel()
	d := New(Options{Options: dialect.Options{Namespace: "ns"}})
	refusal := func(state, queue, text, want string) adopttest.Refusal {
		return adopttest.Refusal{Arrival: dialect.Arrival{State: state, Queue: queue, Text: []byte(text)}, Want: want}
	}
	adopttest.Refused(t, d, []adopttest.Refusal{
		refusal("ready", "", `[]`, textNotObject),
		refusal("ready", "", `{"jid":"short","jobtype":"T","args":[]}`, textJID),
		refusal("ready", "", `{"jid":"0123456789","jobtype":"T"}`, textArgs),
		refusal("ready", "", `{"jid":"0123456789","jobtype":"T","args":[],"queue":"a b"}`, textQueueName),
		refusal("retrying", "", `{"jid":"0123456789","jobtype":"T","args":[],"failure":{"retry_count":"x"}}`, "its failure cannot be read"),
		refusal("blocked", "", `{"jid":"0123456789","jobtype":"T","args":[]}`, "no job can arrive in"),
		refusal("what", "", `{}`, "no job can arrive in"),
		refusal("paused", "a b", ``, textQueueName),
	})
}
