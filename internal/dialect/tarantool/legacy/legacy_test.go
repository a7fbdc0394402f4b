package legacy

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/tinylib/msgp/msgp"

	"millrace/internal/dialect/tarantool/iproto"
	"millrace/internal/dialect/tarantool/proc"
	"millrace/internal/job"
)

// TestID shows the two forms of ids, and that only they name a job.
func TestID(t *testing.T) {
	t.Parallel()
	pattern := regexp.MustCompile(`^[0-9a-f]{32}$`)
	seen := map[string]bool{}
	for _, id := range []job.ID{1, 2, 255, 1 << 32, 1<<53 - 1} {
		for _, numbered := range []bool{false, true} {
			text := string(appendID(nil, 7, id, numbered))
			if !pattern.MatchString(text) || seen[text] {
				t.Errorf("id %d, %v is %q", id, numbered, text)
			}
			seen[text] = true
			want := job.ByPlace("ns", 7, id)
			if numbered {
				want = job.ByNumber("ns", id.Number())
				want.ID = id
			}
			for _, v := range []iproto.Value{
				msgp.AppendString(nil, text), msgp.AppendBytes(nil, []byte(text)),
				msgp.AppendString(nil, strings.ToUpper(text)),
			} {
				if ref, ok := readRef("ns", v); !ok || ref != want {
					t.Errorf("%q names %+v, %v, want %+v", text, ref, ok, want)
				}
			}
		}
	}
	for _, text := range []string{
		"", "1", strings.Repeat("0", 32), strings.Repeat("f", 32), "6d696c6c00008000a700000000000001",
		"6d696c6c000080007700000000000001",
		"6d696c6c0000800087000000000000g1", "6d696c6c-0000-8000-8700-000000000001",
		"6d696c6c00008000870000000000000010",
	} {
		if ref, ok := readRef("ns", msgp.AppendString(nil, text)); ok {
			t.Errorf("%q names %+v", text, ref)
		}
	}
	for _, v := range []iproto.Value{nil, {iproto.Nil}, msgp.AppendInt(nil, 5), msgp.AppendMapHeader(nil, 0)} {
		if ref, ok := readRef("ns", v); ok {
			t.Errorf("%x names %+v", v, ref)
		}
	}
}

// TestBodies shows that values come back as they were sent, whatever they are
// kept as, and that only lone strings are kept as plain bytes.
func TestBodies(t *testing.T) {
	t.Parallel()
	long := func(n int) []byte { return bytes.Repeat([]byte("x"), n) }
	for _, c := range []struct {
		name string
		raw  []byte
		n    int
		kind job.BodyKind
	}{
		{"nothing", nil, 0, job.BodyNone},
		{"empty string", msgp.AppendString(nil, ""), 1, job.BodyBytes},
		{"short string", msgp.AppendString(nil, "text"), 1, job.BodyBytes},
		{"string of 31", msgp.AppendStringFromBytes(nil, long(31)), 1, job.BodyBytes},
		{"string of 32", msgp.AppendStringFromBytes(nil, long(32)), 1, job.BodyBytes},
		{"string of 255", msgp.AppendStringFromBytes(nil, long(255)), 1, job.BodyBytes},
		{"string of 256", msgp.AppendStringFromBytes(nil, long(256)), 1, job.BodyBytes},
		{"string of 65535", msgp.AppendStringFromBytes(nil, long(65535)), 1, job.BodyBytes},
		{"string of 65536", msgp.AppendStringFromBytes(nil, long(65536)), 1, job.BodyBytes},
		{"string with a longer length", []byte("\xd9\x04text"), 1, job.BodyMsgpack},
		{"string with a much longer length", []byte("\xdb\x00\x00\x00\x04text"), 1, job.BodyMsgpack},
		{"string that is no text", []byte("\xa2\xff\x00"), 1, job.BodyMsgpack},
		{"text as binary data", []byte("\xc4\x04text"), 1, job.BodyMsgpack},
		{"binary data", msgp.AppendBytes(nil, []byte("\xff\x00")), 1, job.BodyBytes},
		{"binary data of 256", msgp.AppendBytes(nil, append(long(255), 0xff)), 1, job.BodyBytes},
		{"binary data of 65536", msgp.AppendBytes(nil, append(long(65535), 0xff)), 1, job.BodyBytes},
		{"binary data with a longer length", []byte("\xc5\x00\x02\xff\x00"), 1, job.BodyMsgpack},
		{"empty binary data", []byte("\xc4\x00"), 1, job.BodyMsgpack},
		{"two strings", []byte("\xa1a\xa1b"), 2, job.BodyMsgpack},
		{"number", []byte{5}, 1, job.BodyMsgpack},
		{"nil", []byte{iproto.Nil}, 1, job.BodyMsgpack},
		{"map", []byte("\x81\xa1k\x01"), 1, job.BodyMsgpack},
	} {
		body, kind := proc.StoredBody(c.raw, c.n)
		if kind != c.kind {
			t.Errorf("%s is kept as %d, want %d", c.name, kind, c.kind)
		}
		j := &job.Job{Body: body, BodyKind: kind}
		if n := fieldCount(j); n != c.n {
			t.Errorf("%s comes back as %d values", c.name, n)
		}
		if again := proc.AppendBody(nil, j.BodyKind, j.Body); c.n == 1 && !bytes.Equal(again, c.raw) {
			t.Errorf("%s comes back as %.40x", c.name, again)
		}
	}
}

// TestStates shows how jobs of other protocols look.
func TestStates(t *testing.T) {
	t.Parallel()
	want := map[job.State]string{
		job.Scheduled: "delayed", job.Blocked: "delayed", job.Retrying: "delayed", job.Ready: "ready",
		job.Leased: "taken",
		job.Buried: "buried", job.Dead: "buried", job.Done: "done", job.Failed: "done",
	}
	for s := job.Scheduled; int(s) < job.StateCount; s++ {
		if got := statusOf(s); got != want[s] {
			t.Errorf("%v is shown as %q, want %q", s, got, want[s])
		}
	}
	for _, c := range []struct {
		name string
		j    job.Job
		want job.Time
	}{
		{"never", job.Job{State: job.Ready}, 0},
		{"never at all", job.Job{State: job.Ready, Policy: job.Policy{ExpireAt: job.Never}}, 0},
		{"delayed, without an end", job.Job{State: job.Scheduled, RunAt: 5}, 5},
		{"retrying beyond its end", job.Job{State: job.Retrying, RunAt: 9, Policy: job.Policy{ExpireAt: 7}}, 7},
		{"taken without a limit", job.Job{State: job.Leased, RunAt: 2, Policy: job.Policy{ExpireAt: 7}}, 7},
		{"taken", job.Job{State: job.Leased, Lease: job.Lease{Until: 6}, Policy: job.Policy{ExpireAt: 7}}, 6},
		{"was delayed", job.Job{State: job.Ready, RunAt: 2, Policy: job.Policy{ExpireAt: 7}}, 7},
	} {
		if got := nextEvent(&c.j); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// TestTubesBound shows that names cost no more memory than they may.
func TestTubesBound(t *testing.T) {
	t.Parallel()
	s := stats{limit: 2}
	for _, name := range []string{"a", "b", "a", "c", "d", "b"} {
		s.add(tubeName{name: name}, countTakeTimeout, 1)
	}
	all := func(tubeName) bool { return true }
	rows := s.rows(all)
	if len(rows) != 2 || rows[0].name != "a" || rows[1].name != "b" || rows[0].values[countTakeTimeout] != 2 ||
		rows[1].values[countTakeTimeout] != 2 {
		t.Errorf("%+v", rows)
	}
	for now, want := range map[uint64]uint64{5: 2, 3: 0, 2: 2} {
		if got := since(now, 3); got != want {
			t.Errorf("from 3 to %d is %d, want %d", now, got, want)
		}
	}
}

// FuzzNumber reads arguments of all kinds: whatever they are, nothing panics
// and what is read is within its limits.
func FuzzNumber(f *testing.F) {
	for _, text := range []string{
		"", "0", "-1", "1e300", "0.000001", "nan", "inf", "0x10", "1_0", "+5", ".", "e",
		"9007199254740993", "-0",
	} {
		f.Add(msgp.AppendString(nil, text))
	}
	f.Add([]byte{iproto.Nil})
	f.Add(msgp.AppendFloat64(nil, 1e19))
	f.Add(msgp.AppendUint64(nil, 1<<64-1))
	f.Add(msgp.AppendInt64(nil, -1<<63))
	f.Fuzz(func(t *testing.T, raw []byte) {
		n, err := iproto.Skip(raw)
		if err != nil {
			return // never an argument
		}
		v := iproto.Value(raw[:n])
		if d, ok := readSeconds(v, 5); ok && (d < 1 || d > proc.Century) {
			t.Errorf("%x is %v", v, d)
		}
		if pri, ok := readPriority(v); ok && (pri < priorityMin || pri > priorityMax) {
			t.Errorf("%x is the priority %d", v, pri)
		}
		if count, ok := readCount(v); ok && (count < 0 || count > 1<<31-1) {
			t.Errorf("%x is the count %d", v, count)
		}
		if space, ok := readSpace(v); ok && space > spaceMax {
			t.Errorf("%x is the space %d", v, space)
		}
		_, isSpace := readSpace(v)
		if _, given, ok := readNumber(v); isSpace && (!given || !ok) {
			t.Errorf("%x is a space and no number", v)
		}
		if ref, ok := readRef("ns", v); ok && ref.ID == 0 && ref.Number != 0 {
			t.Errorf("%x names %+v", v, ref)
		}
	})
}
