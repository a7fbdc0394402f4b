package migrate

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/job"
	"millrace/internal/migrate/migratetest"
)

// workqLog makes a command log of jobs that are told by a number.
type workqLog struct{ *migratetest.WorkqLog }

func newWorkqLog() *workqLog { return &workqLog{migratetest.NewWorkqLog()} }

func workqUUID(n byte) dialect.UUID { return dialect.UUID{0: 1, 6: 0x40, 8: 0x80, 15: n} }

// add adds a job; at is zero for one that is not scheduled.
func (l *workqLog) add(n byte, name, payload string, created, at time.Time, maxAttempts uint64) *workqLog {
	l.Add(migratetest.WorkqJob{
		ID: workqUUID(
			n,
		),
		Name:        name,
		Payload:     []byte(payload),
		TTR:         5000,
		TTL:         600_000,
		Priority:    -3,
		MaxAttempts: maxAttempts,
		MaxFails:    2,
		At:          at,
		Created:     created,
	})
	return l
}

func (l *workqLog) then(command, n byte, result string) *workqLog {
	l.Then(command, workqUUID(n), result)
	return l
}

func writeFiles(t *testing.T, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// read reads a source whole.
func read(t *testing.T, kind, address string) ([]dialect.Arrival, error) {
	t.Helper()
	s, err := Open(t.Context(), kind, address)
	if err != nil {
		return nil, err
	}
	defer s.Close() //nolint:errcheck // only read from
	var c collect
	if err := s.Read(t.Context(), &c); err != nil {
		return nil, err
	}
	if n, err := s.Count(t.Context()); err != nil || n != uint64(len(c.jobs)) {
		t.Errorf("it counts %d, %v, and tells %d", n, err, len(c.jobs))
	}
	return c.jobs, nil
}

// A command log of two files: jobs in every state, and some that are gone.
func TestWorkq(t *testing.T) {
	t.Parallel()
	now := time.Now().Truncate(time.Second)
	var none time.Time
	first := newWorkqLog().
		add(1, "a", "ready", now, none, 0).
		add(2, "a", "leased", now, none, 0).
		add(3, "b", "lapsed", now, none, 3).
		add(4, "b", "given up", now, none, 1).
		add(5, "b", "done", now, none, 0).
		add(6, "b", "deleted", now, none, 0).
		add(7, "b", "expired", now, none, 0).
		add(8, "b", "expired unseen", now.Add(-time.Hour), none, 0).
		then(migratetest.WorkqLease, 2, "").then(migratetest.WorkqLease, 3, "")
	second := newWorkqLog().
		then(migratetest.WorkqLapse, 3, "").
		then(migratetest.WorkqLease, 4, "").
		then(migratetest.WorkqLapse, 4, "").
		then(migratetest.WorkqComplete, 5, "result\x00").
		then(migratetest.WorkqDelete, 6, "").then(migratetest.WorkqExpire, 7, "").
		then(migratetest.WorkqComplete, 99, "of a job that was cleaned away").
		add(9, "c", "later", now, now.Add(time.Hour), 0).
		add(10, "c", "due", now, now.Add(-time.Minute), 0).
		add(11, "c", "", now, none, 0).then(migratetest.WorkqFail, 11, "why")
	dir := writeFiles(
		t,
		map[string][]byte{
			"000000002.log":    second.Text,
			"000000001.log":    first.Text,
			"000000003.log.rw": []byte("no log"),
			"x.log":            nil,
		},
	)
	jobs, err := read(t, "workq", dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range jobs {
		a := &jobs[i]
		got = append(got, fmt.Sprintf("%s %s %q %d %d %q", a.Queue, a.State, a.Body, a.Attempts, a.Fails, a.Result))
		if a.Priority != -3 || a.TTR != 5*time.Second || a.TTL != 600_000 || a.MaxFails != 2 ||
			a.Created != job.TimeOf(now) ||
			a.ID != a.Key+" "+now.UTC().Format(time.RFC3339) {
			t.Errorf("%+v", a)
		}
	}
	want := `a ready "ready" 0 0 ""
a leased "leased" 0 0 ""
b ready "lapsed" 1 0 ""
b failed "given up" 1 1 ""
b done "done" 0 0 "result\x00"
c scheduled "later" 0 0 ""
c ready "due" 0 0 ""
c failed "" 0 1 "why"`
	if text := strings.Join(got, "\n"); text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
	if jobs[5].RunAt != job.TimeOf(now.Add(time.Hour)) || jobs[5].ExpireAt != jobs[5].RunAt.Add(10*time.Minute) ||
		jobs[6].RunAt != job.TimeOf(now.Add(-time.Minute)) || jobs[0].ExpireAt != job.TimeOf(now).Add(10*time.Minute) {
		t.Errorf("%+v, %+v, %+v", jobs[0], jobs[5], jobs[6])
	}
}

// What was cut off at the end of the log was never acknowledged; what is wrong elsewhere is told.
func TestWorkqDamage(t *testing.T) {
	t.Parallel()
	var none time.Time
	l := newWorkqLog().add(1, "a", "one", time.Now(), none, 0)
	whole := len(l.Text)
	l.add(2, "a", "two", time.Now(), none, 0)
	for cut := range l.Text {
		jobs, err := read(t, "workq", writeFiles(t, map[string][]byte{"000000001.log": l.Text[:cut]}))
		want := 0
		if cut >= whole {
			want = 1
		}
		if err != nil || len(jobs) != want {
			t.Fatalf("cut at %d: %d jobs, %v", cut, len(jobs), err)
		}
	}
	flip := func(at int) []byte {
		b := append([]byte(nil), l.Text...)
		b[at] ^= 1
		return b
	}
	unknown := newWorkqLog().then(9, 1, "")
	for _, c := range []struct {
		name  string
		files map[string][]byte
		jobs  int
		want  string
	}{
		{"last record", map[string][]byte{"000000001.log": flip(len(l.Text) - 1)}, 1, ""},
		{"zeros", map[string][]byte{"000000001.log": append(l.Text[:whole:whole], make([]byte, 5000)...)}, 1, ""},
		{"first record", map[string][]byte{"000000001.log": flip(whole - 1)}, 0, "damaged"},
		{
			"first file",
			map[string][]byte{"000000001.log": l.Text[:whole+1], "000000002.log": newWorkqLog().Text},
			0,
			"other files follow",
		},
		{"head", map[string][]byte{"000000001.log": flip(7)}, 0, "no command log"},
		{"command", map[string][]byte{"000000001.log": unknown.Text}, 0, "type 9 is not known"},
		{"form", map[string][]byte{"000000001.log": newWorkqLog().Record(append([]byte{3},
			make([]byte, 17)...)).Record(make([]byte, 18)).Text}, 0, "not known"},
		{"short", map[string][]byte{"000000001.log": newWorkqLog().Record([]byte{1, 2, 3}).Text}, 0, "another form"},
		{"nothing", nil, 0, "has no files"},
	} {
		jobs, err := read(t, "workq", writeFiles(t, c.files))
		if len(jobs) != c.jobs || (err == nil) != (c.want == "") ||
			err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %d jobs, %v", c.name, len(jobs), err)
		}
	}
}
