package masenko

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/job"
)

// goPush and the others below are what the original decodes into: the rules of
// the Go decoder are the protocol's. Elements are pointers so that a null does
// not show what a former array of the same name held there.
type goPush struct {
	Name      string          `json:"name"`
	Queue     string          `json:"queue"`
	DeadQueue string          `json:"deadqueue"`
	Payload   json.RawMessage `json:"payload"`
	Retry     uint8           `json:"retry"`
	ExecuteAt *time.Time      `json:"execute_at"`
	BlockedBy []*int64        `json:"blocked_by"`
}

type goFetch struct {
	Queues  []*string  `json:"queues"`
	Timeout goDuration `json:"timeout"`
}

type goDuration time.Duration

func (d *goDuration) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) == nil && string(b) != "null" {
		v, err := time.ParseDuration(s)
		*d = goDuration(v)
		return err
	}
	var n int64
	err := json.Unmarshal(b, &n)
	*d = goDuration(n)
	return err
}

type goID struct {
	ID uint32 `json:"id"`
}

// checkParse compares the parsers with the Go decoder on one body.
func checkParse(t *testing.T, body []byte) {
	t.Helper()
	want := goPush{Retry: defaultRetry}
	wantErr := json.Unmarshal(body, &want)
	var got pushRequest
	err := parsePush(bytes.Clone(body), &got)
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("push %q: %v, want %v", body, err, wantErr)
	}
	if err == nil {
		comparePush(t, body, &got, &want)
	}

	queue := defaultQueue
	wantFetch := goFetch{Queues: []*string{&queue}, Timeout: 1}
	wantErr = json.Unmarshal(body, &wantFetch)
	fetch := fetchRequest{queues: []string{defaultQueue}, timeout: 1}
	err = parseFetch(body, &fetch, func(b []byte) string { return string(b) })
	if (err == nil) != (wantErr == nil) && !errors.Is(err, errQueues) && len(bytes.TrimSpace(body)) > 0 {
		t.Fatalf("fetch %q: %v, want %v", body, err, wantErr)
	}
	if err == nil && wantErr == nil {
		var queues []string
		for _, q := range wantFetch.Queues {
			if q != nil && *q != "" {
				queues = append(queues, *q)
			}
		}
		if strings.Join(fetch.queues, "\x00") != strings.Join(queues, "\x00") ||
			fetch.timeout != time.Duration(wantFetch.Timeout) {
			t.Fatalf("fetch %q: %+v, want %+v", body, fetch, wantFetch)
		}
	}

	var wantID goID
	wantErr = json.Unmarshal(body, &wantID)
	id, err := parseID(body)
	if (err == nil) != (wantErr == nil) || err == nil && id != wantID.ID {
		t.Fatalf("id %q: %d, %v, want %d, %v", body, id, err, wantID.ID, wantErr)
	}
}

func comparePush(t *testing.T, body []byte, got *pushRequest, want *goPush) {
	t.Helper()
	var payload bytes.Buffer
	if want.Payload != nil {
		if err := json.Compact(&payload, want.Payload); err != nil {
			t.Fatal(err)
		}
	}
	same := string(got.name) == want.Name && string(got.queue) == want.Queue &&
		string(got.deadqueue) == want.DeadQueue &&
		string(got.payload) == payload.String() && (got.payload == nil) == (want.Payload == nil) &&
		got.retry == want.Retry && got.scheduled == (want.ExecuteAt != nil) && got.blockersIn == len(want.BlockedBy)
	if same && got.scheduled {
		same = got.executeAt == want.ExecuteAt.Unix()
	}
	for i, n := range got.blockedBy {
		var element int64
		if p := want.BlockedBy[i]; p != nil {
			element = *p
		}
		same = same && element == n
	}
	if !same {
		t.Fatalf("push %q:\n got %+v\nwant %+v", body, got, want)
	}
}

var bodySeeds = []string{
	``, ` `, `{}`, `null`, `[]`, `"x"`, `1`, `{`, `{"name":"a"} `, ` {"name":"a"}`, `{"name":"a"}x`,
	`{"NAME":"a","Queue":"q","DeadQueue":"d"}`, `{"name":"a","name":"b"}`, `{"name":"a","name":null}`, `{"name":1}`,
	`{"n\u0061me":"\u0061\n"}`,
	`{"payload":null}`, `{"payload": { "a" : [ 1.50 , 1e3 , 12345678901234567890123 , "x  y" ] } }`,
	`{"payload":"<&>"}`, `{"payload":1,"payload":[ ]}`,
	`{"retry":0}`, `{"retry":255}`, `{"retry":256}`, `{"retry":-1}`, `{"retry":1.0}`, `{"retry":"1"}`,
	`{"retry":null}`, `{"retry":1e1}`,
	`{"execute_at":"2030-01-02T03:04:05Z"}`, `{"execute_at":"2030-01-02T03:04:05.999999999+05:30"}`,
	`{"execute_at":"2030-01-02"}`, `{"execute_at":""}`,
	`{"execute_at":null}`, `{"execute_at":1}`, `{"execute_at":"2030-01-02T03:04:05"}`,
	`{"execute_at":"2030-01-02T3:04:05Z"}`, `{"execute_at":"2030-01-02t03:04:05z"}`,
	`{"execute_at":"1960-01-02T03:04:05.5Z"}`, `{"execute_at":"0000-01-01T00:00:00Z"}`,
	`{"execute_at":"2030-01-02T03:04:05Z","execute_at":null}`,
	`{"blocked_by":[1,-2,0]}`, `{"blocked_by":[]}`, `{"blocked_by":null}`, `{"blocked_by":[null]}`,
	`{"blocked_by":[1.5]}`, `{"blocked_by":1}`, `{"blocked_by":["1"]}`,
	`{"blocked_by":[9223372036854775807,9223372036854775808]}`, `{"blocked_by":[1,2],"blocked_by":[3]}`,
	`{"queues":["a","b"],"timeout":"1m30s"}`, `{"queues":[],"timeout":1}`, `{"queues":null}`, `{"queues":[null,"x"]}`,
	`{"queues":"a"}`, `{"queues":[1]}`,
	`{"timeout":1.5}`, `{"timeout":"1"}`, `{"timeout":"0"}`, `{"timeout":null}`, `{"timeout":true}`,
	`{"timeout":"49.998713ms"}`, `{"timeout":"2µs"}`, `{"timeout":-5}`, `{"timeout":{}}`,
	`{"timeout":9223372036854775808}`, `{"timeout":""}`, `{"id":1}`, `{"id":0}`, `{"id":4294967295}`,
	`{"id":4294967296}`, `{"id":-1}`, `{"id":"1"}`, `{"ID":7,"id":null}`, `{"id":1.0}`,
	`{"":1}`, "{\"name\":\"\xff\"}", `{"ſ":1}`, `{"blocKed_by":[1]}`, `{"name":"\ud800"}`,
}

func TestParseAgreesWithTheGoDecoder(t *testing.T) {
	t.Parallel()
	for _, s := range bodySeeds {
		checkParse(t, []byte(s))
	}
}

func TestSplitLine(t *testing.T) {
	t.Parallel()
	tests := []struct{ line, word, body string }{
		{"PING", "PING", ""},
		{"PING\r", "PING", ""},
		{"PING ", "PING", ""},
		{"PUSH {}", "PUSH", "{}"},
		{"PUSH  {} \r", "PUSH", " {} "},
		{"", "", ""},
		{"\r", "", ""},
		{" PING", "", "PING"},
		{"a\r\r", "a\r", ""},
	}
	for _, test := range tests {
		word, body := splitLine([]byte(test.line))
		if string(word) != test.word || string(body) != test.body {
			t.Errorf("%q split into %q and %q", test.line, word, body)
		}
	}
}

func TestParseVerb(t *testing.T) {
	t.Parallel()
	for v := verbPing; int(v) < verbCount; v++ {
		name := verbNames[v]
		for _, s := range []string{name, strings.ToLower(name), name[:1] + strings.ToLower(name[1:])} {
			if got := parseVerb([]byte(s)); got != v {
				t.Errorf("%q is verb %d", s, got)
			}
		}
	}
	for _, s := range []string{"", "P", "PUSHX", "PUS", "ATOMICS", "pin\x00", "ACK\r"} {
		if got := parseVerb([]byte(s)); got != verbUnknown {
			t.Errorf("%q is verb %d", s, got)
		}
	}
}

func TestValidName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"a": true, "Z": true, "0": true, "_": true, "-": true, "service.bob": true, "über": true, "...x": true,
		"": false, ".": false, "äöü": false, " /": false,
	} {
		if got := validName([]byte(name)); got != want {
			t.Errorf("validName(%q) = %v", name, got)
		}
	}
}

func TestRefusalCoversEveryKind(t *testing.T) {
	t.Parallel()
	for k := job.Invalid; k <= job.Lapsing; k++ {
		if refusal(k) == "" {
			t.Errorf("kind %d has no text", k)
		}
	}
	if refusal(job.Lapsing+1) != textInternal {
		t.Error("an unknown kind has no text")
	}
}

func TestRenderForeignBodies(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		job  job.Job
		want string
	}{
		"none": {job.Job{ID: 5, Queue: "q", Type: "t"}, `OK {"id":5,"queue":"q","name":"t"}`},
		"trace": {
			job.Job{ID: 5, Queue: "q", Type: "t", Trace: "00-x"},
			`OK {"id":5,"queue":"q","name":"t","traceparent":"00-x"}`,
		},
		"no type": {job.Job{ID: 5, Queue: "q", Fails: 3}, `OK {"id":5,"queue":"q","name":"job","failures":3}`},
		"args": {
			job.Job{ID: 5, Queue: "q", Type: "t", Body: []byte(`[1,"a"]`), BodyKind: job.BodyArgs},
			`OK {"id":5,"queue":"q","name":"t","payload":[1,"a"]}`,
		},
		"json lines": {
			job.Job{ID: 5, Queue: "q", Type: "t", Body: []byte("{\n\"a\": 1.50}"), BodyKind: job.BodyJSON},
			`OK {"id":5,"queue":"q","name":"t","payload":{"a":1.50}}`,
		},
		"bytes json": {
			job.Job{ID: 5, Queue: "q", Type: "t", Body: []byte(`{"a": 1}`), BodyKind: job.BodyBytes},
			`OK {"id":5,"queue":"q","name":"t","payload":{"a":1}}`,
		},
		"bytes": {
			job.Job{ID: 5, Queue: "q", Type: "t", Body: []byte("\x00\xff\n"), BodyKind: job.BodyBytes},
			`OK {"id":5,"queue":"q","name":"t","payload":"AP8K"}`,
		},
		"bytes empty": {
			job.Job{ID: 5, Queue: "q", Type: "t", BodyKind: job.BodyBytes},
			`OK {"id":5,"queue":"q","name":"t","payload":""}`,
		},
		"json empty": {
			job.Job{ID: 5, Queue: "q", Type: "t", BodyKind: job.BodyJSON},
			`OK {"id":5,"queue":"q","name":"t","payload":""}`,
		},
		"msgpack": {
			job.Job{ID: 5, Queue: "q", Type: "t", Body: []byte("\x01"), BodyKind: job.BodyMsgpack},
			`OK {"id":5,"queue":"q","name":"t","payload":"AQ=="}`,
		},
		"strange name": {
			job.Job{ID: 5, Queue: "q\n\"", Type: "é\xff"},
			`OK {"id":5,"queue":"q\n\"","name":"é` + "\ufffd" + `"}`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := string(appendTask(nil, &test.job, test.job.ID.Number()))
			if got != test.want+"\n" {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if !json.Valid([]byte(strings.TrimPrefix(got, "OK "))) {
				t.Errorf("%q is not JSON", got)
			}
		})
	}
}

// TestAliases numbers jobs that have no number of their own.
func TestAliases(t *testing.T) {
	t.Parallel()
	c := &conn{d: &Dialect{opts: Options{Options: dialect.Options{Namespace: "n"}}}}
	if n := c.number(&job.Job{ID: 7, Flags: job.FlagNumbered}); n != 7 || c.ref(7) != job.ByNumber("n", 7) {
		t.Errorf("a numbered job is %d, %+v", n, c.ref(7))
	}
	seen := make(map[uint32]bool)
	for _, id := range []job.ID{9, 9 + 1<<32, 1 << 32, 9 + 2<<32} {
		n := c.number(&job.Job{ID: id, Namespace: "n", QueueNum: 5})
		if n == 0 || seen[n] || c.ref(n) != job.ByPlace("n", 5, id) {
			t.Errorf("job %d is number %d, %+v", id, n, c.ref(n))
		}
		seen[n] = true
		moved := &job.Job{ID: id, Namespace: "n", QueueNum: 6}
		if again := c.number(moved); again != n || c.ref(n) != moved.Ref() {
			t.Errorf("job %d is %d and then %d, %+v", id, n, again, c.ref(again))
		}
	}
}

func BenchmarkPushParse(b *testing.B) {
	c := &conn{d: &Dialect{opts: Options{Options: dialect.Options{Namespace: "default"}, MaxPayload: 1 << 20}}}
	line := []byte(`PUSH {"name": "send-mail", "queue": "mail", "payload": {"to": "a@example.com", "n": 123456}, "retry": 3}`)
	work := make([]byte, len(line))
	var out []byte
	b.ReportAllocs()
	for b.Loop() {
		u := dialect.GetUnit()
		copy(work, line)
		if command(c, u, work) || len(u.Commands) != 1 {
			b.Fatal("not a push")
		}
		out = appendPushed(out[:0], 12345)
		u.Release()
	}
	_ = out
}

func BenchmarkFetchParseAndRender(b *testing.B) {
	c := &conn{d: &Dialect{opts: Options{Options: dialect.Options{Namespace: "default"}, Heartbeat: DefaultHeartbeat}}}
	line := []byte(`FETCH {"queues": ["urgent", "mail"], "timeout": "20s"}`)
	j := &job.Job{
		ID: 12345, Queue: "mail", Type: "send-mail", Body: []byte(`{"to":"a@example.com","n":123456}`),
		BodyKind: job.BodyJSON, Origin: dialect.DoorMasenko, Flags: job.FlagNumbered,
	}
	var out []byte
	b.ReportAllocs()
	for b.Loop() {
		u := dialect.GetUnit()
		if !command(c, u, line) {
			b.Fatal("not a fetch")
		}
		out = appendTask(out[:0], j, c.number(j))
		u.Release()
	}
	_ = out
}

func BenchmarkAckParse(b *testing.B) {
	c := &conn{d: &Dialect{opts: Options{Options: dialect.Options{Namespace: "default"}}}}
	line := []byte(`ACK {"id": 123456}`)
	b.ReportAllocs()
	for b.Loop() {
		u := dialect.GetUnit()
		if command(c, u, line); len(u.Commands) != 1 {
			b.Fatal("not an ack")
		}
		u.Release()
	}
}
