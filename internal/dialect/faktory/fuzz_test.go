package faktory

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"millrace/internal/dialect"
	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/store/memstore"
	"millrace/internal/testkit"
)

var jobSeeds = []string{
	`{"jid":"12345678","jobtype":"x","args":[]}`, `null`, `{}`, `[]`, `{"jid":1}`, `{"args":null,"args":[1,2.50,"x"]}`,
	`{"retry":-1,"custom":{"unique_for":60,"track":1,"bid":"b-7"}}`,
	` { "jid" : "a\u00e4\ud800\"" , "at":"2000-01-01T00:00:00Z","x":{ "y" : [ 1e400 , -0 ] } } `, `{"reserve_for":1.5}`,
	`{"reserve_for":1e3}`, `{"retry":9223372036854775808}`,
	`{"custom":{ }}`, `{"custom":[]}`, `{"failure":{"a":1},"custom":{"b":2},"priority":9,"backtrace":0,"created_at":"","enqueued_at":"z","queue":null}`, `{"\u006aid":"escaped!","Jid":2}`,
	"{\"jid\":\"\xff\xfe\",\"k\xff\":\"\x80\"}", `{"a":1,"a":2,"":3}`, `{"jid":1,"jid":"again"}`,
	`{"jid":"a","jid":null,"retry":7,"retry":null,"args":[1],"args":null,"custom":{"a":1},"custom":null}`,
	`{"at":7}`, `{"jobtype":"x"`, `{"x":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`,
}

// reference is a job as the Go decoder reads it, member by member. Each must be of the right type, and of one that is
// given again the last counts, a null as well.
type reference struct {
	jid, jobtype, queue, at, created string
	retry, reserve, priority, lines  int64
	args, custom, failure            json.RawMessage
	rest                             map[string]json.RawMessage
}

func readReference(text []byte) (r reference, ok bool) {
	var all map[string]json.RawMessage
	if json.Unmarshal(text, &all) != nil {
		return r, false
	}
	r.rest = map[string]json.RawMessage{}
	d := json.NewDecoder(bytes.NewReader(text))
	_, _ = d.Token() // the brace: the text was decoded above, so that nothing fails
	for d.More() {
		var value json.RawMessage
		token, _ := d.Token()
		name, _ := token.(string)
		_ = d.Decode(&value)
		var target any
		var enqueued string
		open := byte(0)
		switch name {
		case "jid":
			target = &r.jid
		case "jobtype":
			target = &r.jobtype
		case "queue":
			target = &r.queue
		case "at":
			target = &r.at
		case "created_at":
			target = &r.created
		case "enqueued_at":
			target = &enqueued
		case "retry":
			target = &r.retry
		case "reserve_for":
			target = &r.reserve
		case "priority":
			target = &r.priority
		case "backtrace":
			target = &r.lines
		case "args":
			r.args, open = value, '['
		case "custom":
			r.custom, open = value, '{'
		case "failure":
			r.failure, open = value, '{'
		default:
			r.rest[name] = value
		}
		if target != nil {
			reflect.ValueOf(target).Elem().SetZero()
			if json.Unmarshal(value, target) != nil {
				return r, false
			}
		}
		if open != 0 && value[0] != open && string(value) != "null" {
			return r, false
		}
	}
	return r, true
}

// exact decodes JSON without changing numbers.
func exact(t *testing.T, text []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return v
}

// FuzzJob feeds the object of a job to the parser: the Go decoder agrees about what it
// is and holds, and what is kept of it is the rest, value by value, without blanks.
func FuzzJob(f *testing.F) {
	for _, s := range jobSeeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, input string) {
		text := validUTF8([]byte(input))
		var j jobText
		var extra []byte
		var reason string
		testkit.Bounded(t, len(text), func() { extra, reason = j.parse(text, []byte{0}) })
		want, ok := readReference(text)
		if ok != (reason == "") {
			t.Fatalf("%q: reason %q, the Go decoder takes it: %t", input, reason, ok)
		}
		if !ok {
			return
		}
		if string(j.jid) != want.jid || string(j.jobtype) != want.jobtype || string(j.queue) != want.queue ||
			string(j.at) != want.at ||
			j.retry != want.retry || j.reserve != want.reserve || j.priority != want.priority {
			t.Fatalf("%q: %+v, want %+v", input, j, want)
		}
		if isNull(want.args) != (j.args == nil) && want.args != nil || j.args != nil &&
			!reflect.DeepEqual(exact(t, j.args), exact(t, want.args)) {
			t.Fatalf("%q: args %s, want %s", input, j.args, want.args)
		}
		extra = j.appendExtra(extra, 0)
		if !utf8.Valid(extra) || len(extra) > 2*len(text)+64 {
			t.Fatalf("%q: extra %q", input, extra)
		}
		checkExtra(t, extra, &want)
		readFeatures(j.custom) // whatever it is, it does not panic
	})
}

// checkExtra compares what is kept of a job with what it had.
func checkExtra(t *testing.T, extra []byte, want *reference) {
	t.Helper()
	flags, members := splitExtra(extra)
	object := []byte("{}")
	if len(members) > 0 {
		object = append(append([]byte{'{'}, members[1:]...), '}')
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, object); err != nil || compact.String() != string(object) {
		t.Fatalf("kept %q: %v", object, err)
	}
	var kept map[string]json.RawMessage
	if err := json.Unmarshal(object, &kept); err != nil {
		t.Fatal(err)
	}
	expect := map[string]json.RawMessage{}
	maps.Copy(expect, want.rest)
	for name, value := range map[string]any{
		"at": want.at, "created_at": want.created, "reserve_for": want.reserve,
		"backtrace": want.lines,
	} {
		if value != "" && value != int64(0) {
			expect[name], _ = json.Marshal(value)
		}
	}
	for name, value := range map[string]json.RawMessage{"failure": want.failure, "custom": want.custom} {
		if value != nil && !isNull(value) && (name != "custom" || len(exact(t, value).(map[string]any)) > 0) {
			expect[name] = value
		}
	}
	for _, name := range []string{"retry", "priority"} {
		if value, ok := kept[name]; ok { // zero and null differ, which the reference does not know
			expect[name] = value
		}
	}
	if len(kept) != len(expect) {
		t.Fatalf("kept %q, want %v", object, expect)
	}
	for name, value := range expect {
		if kept[name] == nil || !reflect.DeepEqual(exact(t, kept[name]), exact(t, value)) {
			t.Fatalf("kept %q of %s, want %q", kept[name], name, value)
		}
	}
	for name, flag := range map[string]byte{
		"retry": extraRetry, "created_at": extraCreated, "failure": extraFailure,
		"custom": extraCustom,
	} {
		if _, ok := kept[name]; ok != (flags&flag != 0) {
			t.Fatalf("flags %b for %q", flags, object)
		}
	}
	var left map[string]json.RawMessage
	if without := withoutFailure(members); len(without) > 0 {
		if err := json.Unmarshal(append(append([]byte{'{'}, without[1:]...), '}'), &left); err != nil {
			t.Fatalf("%q without failure is %q", members, without)
		}
	}
	delete(kept, "failure")
	if len(left) != len(kept) {
		t.Fatalf("%q without failure has %d members, want %d", members, len(left), len(kept))
	}
}

var lineSeeds = []string{
	"", "PUSH", "PUSHB []", "PUSHB [{\"jid\":\"12345678\",\"jobtype\":\"x\",\"args\":[]},{}]", "PUSHB null",
	"PUSHB [1]", "FETCH", "FETCH  a b", "ACK {\"jid\":\"12345678\"}", "ACK {}", "ACK \x01\r",
	"FAIL {\"jid\":\"12345678\",\"errtype\":\" x \",\"message\":\"m\",\"backtrace\":[\"a\",null]}", "FAIL null",
	"BEAT {\"wid\":\"w\",\"current_state\":\"quiet\",\"rss_kb\":1}", "INFO", "INFO x", "FLUSH", "END",
	"QUEUE", "QUEUE pause *", "QUEUE REMOVE a b", "QUEUE LATENCY a a b", "QUEUE LATENCY *", "QUEUE RESUME", "QUEUE x y",
	"MUTATE {\"cmd\":\"discard\",\"target\":\"dead\",\"filter\":{\"jids\":[\"12345678\"]}}",
	"MUTATE {\"cmd\":\"kill\",\"target\":\"scheduled\",\"filter\":{\"regexp\":\"*[a-\\\\]*\",\"jobtype\":\"x\"}}",
	"MUTATE {}", "MUTATE", "TRACK GET 12345678", "TRACK GET",
	"TRACK SET {\"jid\":\"12345678\",\"percent\":1,\"reserve_until\":\"2030-01-01T00:00:00Z\"}",
	"BATCH NEW {\"success\":{\"jobtype\":\"x\",\"args\":[]}}", "BATCH OPEN b-1", "BATCH COMMIT b-1", "BATCH STATUS b-1",
	"BATCH STATUS b-01", "what ever", "push {}", "\x00\xff", "ACK {\"jid\":\"millrace-1-1\"}",
}

// FuzzCommand runs one command line on a real engine: nothing panics, and there is
// exactly one reply, in a form that the protocol has.
func FuzzCommand(f *testing.F) {
	for _, s := range lineSeeds {
		f.Add(s)
	}
	for _, s := range jobSeeds {
		f.Add("PUSH " + s)
	}
	e, err := engine.Open(engine.Options{Store: memstore.New(), Durability: engine.DurabilityNone, Seed: 1})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = e.Close() })
	d := New(Options{Options: dialect.Options{Engine: e}})
	f.Fuzz(func(t *testing.T, line string) {
		if strings.Contains(line, "\n") {
			return // never part of a line
		}
		_, server := testkit.Pipe(0)
		dc := dialect.NewConn(server, dialect.Limits{})
		c := &conn{Pipeline: d.NewPipeline(dc), d: d, holder: e.NewHolder()}
		u := new(dialect.Unit)
		later := command(c, u, []byte(line))
		if word, arg := splitLine([]byte(line)); string(word) == "FETCH" {
			if arg == nil == later || len(c.queues) > len(arg) {
				t.Fatalf("%q names %q", line, c.queues)
			}
			return // it would wait
		}
		if later {
			_ = c.Later() // END is an error
		} else {
			c.Do(e, &u.Request)
			out, _ := c.Render(c.Out(), u, &u.Replies[0])
			c.SetOut(out)
		}
		checkReply(t, line, string(c.Out()))
	})
}

// command takes a line into a unit.
func command(c *conn, u *dialect.Unit, line []byte) (later bool) {
	c.line = line
	later, _ = c.Take(u) // there is no error
	return later
}

func checkReply(t *testing.T, line, reply string) {
	t.Helper()
	head, rest, ok := strings.Cut(reply, "\r\n")
	if !ok || head == "" {
		t.Fatalf("%q gives %q", line, reply)
	}
	switch head[0] {
	case '+':
		ok = head == "+OK" && rest == ""
	case '-':
		code, _, _ := strings.Cut(head[1:], " ")
		ok = rest == "" && (code == "ERR" || code == "NOTUNIQUE") &&
			!strings.ContainsFunc(head, func(r rune) bool { return r < ' ' || r == 0x7f })
	case '$':
		n, err := strconv.Atoi(head[1:])
		ok = err == nil && len(rest) == n+2 && strings.HasSuffix(rest, "\r\n") &&
			(json.Valid([]byte(rest[:n])) || strings.HasPrefix(rest, "b-")) && !strings.Contains(rest[:n], "\n")
	default:
		ok = false
	}
	if !ok {
		t.Fatalf("%q gives %q", line, reply)
	}
}

// naiveGlob matches as the definition says, by trying everything.
func naiveGlob(pattern, text string) bool {
	if pattern == "" {
		return text == ""
	}
	if pattern[0] == '*' {
		return naiveGlob(pattern[1:], text) || text != "" && naiveGlob(pattern, text[1:])
	}
	if text == "" {
		return false
	}
	next, ok := globOne([]byte(pattern), 0, text[0])
	return ok && naiveGlob(pattern[next:], text[1:])
}

// FuzzGlob compares the matcher, which goes back to the last star only, with one that
// tries everything.
func FuzzGlob(f *testing.F) {
	for _, g := range globCases {
		f.Add(g.pattern, g.text)
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if strings.Count(pattern, "*") > 5 || len(text) > 40 {
			return // it tries everything
		}
		if got, want := glob([]byte(pattern), []byte(text)), naiveGlob(pattern, text); got != want {
			t.Fatalf("%q on %q: %t, want %t", pattern, text, got, want)
		}
	})
}

// FuzzHello feeds a first line to its parser: the Go decoder agrees about what it says.
func FuzzHello(f *testing.F) {
	for _, s := range []string{
		`{"v":2,"wid":"w","hostname":"h","pid":1,"labels":["a"],"pwdhash":"x"}`, `{}`,
		`{"v":256}`, `{"v":-1}`, `{"labels":null}`, `{"labels":[1]}`, `{"wid":null}`, `{`, ` {}`, `{"rss_kb":1.5}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, arg string) {
		if strings.ContainsAny(arg, "\n\r") {
			return
		}
		var h hello
		var text string
		testkit.Bounded(t, len(arg), func() { h, text = parseHello([]byte("HELLO " + arg)) })
		var all map[string]json.RawMessage
		var want hello
		ok := strings.HasPrefix(arg, "{") && json.Unmarshal([]byte(arg), &all) == nil
		for name, target := range map[string]any{
			"v": new(uint8), "wid": &want.wid, "hostname": &want.hostname, "pid": &want.pid, "labels": &want.labels,
			"pwdhash": new(string), "username": new(string), "rss_kb": &want.rss,
		} {
			if value, given := all[name]; given && ok {
				ok = json.Unmarshal(value, target) == nil
			}
		}
		if ok != (text == "") {
			t.Fatalf("%q: %q, the Go decoder takes it: %t", arg, text, ok)
		}
		if ok && (h.wid != want.wid || h.hostname != want.hostname || h.pid != want.pid || h.rss != want.rss ||
			strings.Join(h.labels, "\x00") != strings.Join(want.labels, "\x00")) {
			t.Fatalf("%q: %+v, want %+v", arg, h, want)
		}
	})
}

// specOf returns what a push asks of the engine, or how it is refused.
func specOf(t *testing.T, text string) (job.Spec, string) {
	t.Helper()
	c := &conn{d: New(Options{})}
	var s job.Spec
	var j jobText
	if reason := j.read(new(dialect.Unit), &s, []byte(text)); reason != "" {
		return s, textJSON + reason
	}
	return s, c.finishPush(&j, &s)
}
