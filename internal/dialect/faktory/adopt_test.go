package faktory

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
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
		{"held", dialect.Arrival{
			State: "leased",
			Text:  []byte(`{"jid":"0123456789","queue":"q","jobtype":"T","args":[]}`),
		}, job.Ready, `"args":[]`, ""},
		{
			"scheduled",
			dialect.Arrival{State: "scheduled", RunAt: soon, Text: []byte(
				`{"jid":"0123456789","queue":"q","jobtype":"T","args":[],"at":"2024-01-02T03:04:05Z"}`)},
			job.Scheduled,
			`"at":"2024-01-02T03:04:05Z"`, "",
		},
		{
			"retrying",
			dialect.Arrival{State: "retrying", RunAt: soon, Text: []byte(`{"jid":"0123456789","queue":"q","jobtype":"T","args":[],"retry":5,
			"failure":{"retry_count":2,"remaining":3,"failed_at":"2024-01-02T03:04:05Z","message":"m","errtype":"E","backtrace":["a","b"]}}`)},
			job.Retrying, `"failure":{"retry_count":2,"remaining":3,"failed_at":"2024-01-02T03:04:05Z","next_at":`, "",
		},
		{
			"dead",
			dialect.Arrival{State: "dead", Since: job.TimeOf(time.Now()), Text: []byte(
				`{"jid":"0123456789","queue":"q","jobtype":"T","args":[],"failure":{"retry_count":25,"message":"m"}}`)},
			job.Dead, `"retry_count":25`, "",
		},
		{
			"in a batch",
			dialect.Arrival{
				State: "ready",
				Text:  []byte(`{"jid":"0123456789","queue":"q","jobtype":"T","args":[],"custom":{"bid":"b-xYz_0"}}`),
			},
			job.Ready, `"bid":"b-xYz_0"`, "its batch",
		},
		{
			"in a batch with a number of ours",
			dialect.Arrival{
				State: "ready",
				Text:  []byte(`{"jid":"0123456789","queue":"q","jobtype":"T","args":[],"custom":{"bid":"b-1"}}`),
			},
			job.Ready, `"bid":"b-1"`, "its batch",
		},
		{
			"with a bid of the producer's own",
			dialect.Arrival{
				State: "ready",
				Text:  []byte(`{"jid":"0123456789","queue":"q","jobtype":"T","args":[],"custom":{"bid":7}}`),
			},
			job.Ready, `"bid":7`, "",
		},
	} {
		c.a.Queue = "q"
		j, lost := adopttest.Take(t, e, d, &c.a)
		text := string(appendJob(nil, &j))
		if j.State != c.want || j.Batch != 0 || !strings.Contains(text, c.show) || !json.Valid([]byte(text)) ||
			strings.Count(text, `"failure"`) > 1 {
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

// TestAdoptLock has jobs take the lock that they would have if they had been pushed here when they were made.
func TestAdoptLock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, adoptLocks)
}

func adoptLocks(t *testing.T) {
	d := New(Options{Options: dialect.Options{Namespace: "ns"}})
	now := time.Now()
	at := func(d time.Duration) string { return now.Add(d).UTC().Format(time.RFC3339Nano) }
	const failed = `"failure":{"retry_count":0},`
	for _, c := range []struct {
		name, state, job string // with what the job has besides
		want             time.Duration
	}{
		{
			"made a minute ago", "ready", `"created_at":"` + at(-time.Minute) + `","custom":{"unique_for":600}`,
			9 * time.Minute,
		},
		{"over", "ready", `"created_at":"` + at(-time.Hour) + `","custom":{"unique_for":600}`, 0},
		{"held", "leased", `"created_at":"` + at(-time.Minute) + `","custom":{"unique_for":600}`, 9 * time.Minute},
		{"scheduled", "scheduled", `"created_at":"` + at(-time.Hour) + `","at":"` + at(time.Hour) +
			`","custom":{"unique_for":600}`, 70 * time.Minute},
		{"was scheduled", "ready", `"created_at":"` + at(-time.Hour) + `","at":"` + at(-5*time.Minute) +
			`","custom":{"unique_for":600}`, 5 * time.Minute},
		{"scheduled for the past", "ready", `"created_at":"` + at(-5*time.Minute) + `","at":"` + at(-time.Hour) +
			`","custom":{"unique_for":600}`, 5 * time.Minute},
		{
			"retrying", "retrying", failed + `"created_at":"` + at(-time.Minute) + `","custom":{"unique_for":600}`,
			9 * time.Minute,
		},
		{
			"dead", "dead", failed + `"created_at":"` + at(-time.Minute) + `","custom":{"unique_for":600}`,
			9 * time.Minute,
		},
		{
			"a clock ahead", "ready", `"created_at":"` + at(time.Hour) + `","custom":{"unique_for":600}`,
			10 * time.Minute,
		},
		{"made at no time", "ready", `"created_at":"noon","custom":{"unique_for":600}`, 10 * time.Minute},
		{"until start", "ready", `"created_at":"` + at(-time.Minute) +
			`","custom":{"unique_for":600,"unique_until":"start"}`, 9 * time.Minute},
		{"until start, held", "leased", `"created_at":"` + at(-time.Minute) +
			`","custom":{"unique_for":600,"unique_until":"start"}`, 0},
		{"until start, failed", "retrying", failed + `"created_at":"` + at(-time.Minute) +
			`","custom":{"unique_for":600,"unique_until":"start"}`, 0},
	} {
		text := `{"jid":"0123456789","queue":"q","jobtype":"T","args":["a\u003c"],` + c.job + `}`
		a := &dialect.Arrival{Queue: "q", State: c.state, Text: []byte(text)}
		if c.state == "scheduled" || c.state == "retrying" {
			a.RunAt = job.TimeOf(now.Add(2 * time.Hour)) // of a retry it is not what the producer asked for
		}
		cmd, lost, err := d.Adopt(a)
		p, ok := cmd.(*job.Push)
		if !ok || lost != "" {
			t.Fatalf("%s: %v, %q, %v", c.name, cmd, lost, err)
		}
		want := job.Time(0)
		if c.want != 0 {
			want = job.TimeOf(now.Add(c.want))
		}
		if p.Past.LockedUntil != want || (p.Spec.Lock == "") != (want == 0) {
			t.Errorf("%s: the lock %q until %s, want %s", c.name, p.Spec.Lock, p.Past.LockedUntil.Std(), want.Std())
		}
		same, _ := specOf(t, `{"jid":"123456789","queue":"q","jobtype":"T","args":["a<"],"custom":{"unique_for":5}}`)
		if want != 0 && p.Spec.Lock != same.Lock {
			t.Errorf("%s: the same job that is pushed here has another lock", c.name)
		}
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
		refusal("retrying", "", `{"jid":"0123456789","jobtype":"T","args":[],"failure":{"retry_count":"x"}}`,
			"its failure cannot be read"),
		refusal("blocked", "", `{"jid":"0123456789","jobtype":"T","args":[]}`, "no job can arrive in"),
		refusal("what", "", `{}`, "no job can arrive in"),
		refusal("paused", "a b", ``, textQueueName),
	})
}
