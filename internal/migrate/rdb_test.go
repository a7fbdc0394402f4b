package migrate

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hdt3213/rdb/encoder"
	"github.com/hdt3213/rdb/model"

	"millrace/internal/dialect"
	"millrace/internal/job"
)

// noted is a sink that notes what it takes.
type noted struct {
	taken, left []string
	died        job.Time // the last that is dead
}

func (n *noted) Take(a *dialect.Arrival) error {
	if a.State == job.Dead.String() {
		n.died = a.Since
	}
	n.taken = append(n.taken, strings.TrimSpace(fmt.Sprintf("%s %s %s", a.Queue, a.State, a.ID)))
	return nil
}

func (n *noted) Leave(_ *dialect.Arrival, why string) { n.left = append(n.left, why) }

// writeRDB writes what a Faktory server keeps into database 2, with the jobs before the names of queues, and other
// keys.
func writeRDB(t *testing.T, path string) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	enc := encoder.NewEncoder(file)
	text := func(jid, queue string) string {
		return fmt.Sprintf(`{"jid":%q,"queue":%q,"created_at":"c"}`, jid, queue)
	}
	set := func(scores map[string]float64) (entries []*model.ZSetEntry) {
		for member, score := range scores {
			entries = append(entries, &model.ZSetEntry{Member: member, Score: score})
		}
		return entries
	}
	for i, err := range []error{
		enc.WriteHeader(), enc.WriteAux("redis-ver", "7.0.0"),
		enc.WriteDBHeader(1, 1, 0),
		enc.WriteListObject("mails", [][]byte{[]byte(text("elsewhere", "mails"))}),
		enc.WriteDBHeader(2, 8, 0),
		enc.WriteListObject("mails", [][]byte{
			[]byte(text("third", "mails")), []byte(text("second", "mails")),
			[]byte(text("first", "mails")), []byte("nonsense"),
		}),
		enc.WriteListObject("no queue", [][]byte{[]byte(text("x", "x"))}),
		enc.WriteStringObject("string", []byte("x")),
		enc.WriteZSetObject("scheduled", set(map[string]float64{text("later", "b"): 1.9e9, text("soon", "a"): 1.8e9})),
		enc.WriteZSetObject("dead", set(map[string]float64{text("dead", "a"): 1.9e9})),
		enc.WriteZSetObject("working", set(map[string]float64{`{"job":` + text("held", "a") + `}`: 1})),
		enc.WriteSetObject("queues", [][]byte{[]byte("mails"), []byte("empty")}),
		enc.WriteSetObject("paused", [][]byte{[]byte("mails")}),
		enc.WriteDBHeader(3, 1, 0),
		enc.WriteListObject("mails", [][]byte{[]byte(text("elsewhere", "mails"))}),
		enc.WriteEnd(), file.Close(),
	} {
		if err != nil {
			t.Fatal(i, err)
		}
	}
}

func TestFaktoryFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "dump.rdb")
	writeRDB(t, path)
	s, err := Open(t.Context(), "faktory", path+"?db=2")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := s.Count(t.Context()); n != 8 || err != nil {
		t.Errorf("%d jobs, %v", n, err)
	}
	var got noted
	if err := s.Read(t.Context(), &got); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"mails paused paused mails", "a leased held c", "mails ready first c", "mails ready second c",
		"mails ready third c",
		"a scheduled soon c", "b scheduled later c", "a dead dead c",
	}
	if !slices.Equal(got.taken, want) || len(got.left) != 1 || !strings.Contains(got.left[0], "nonsense") {
		t.Errorf("taken %q, left %q", got.taken, got.left)
	}
	if at := job.TimeOf(time.Unix(1.9e9, 0).Add(-180 * 24 * time.Hour)); got.died != at { // else it was forgotten then
		t.Errorf("it died at %d, want %d", got.died, at)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Read(canceled, &got); err == nil {
		t.Error("it goes on although nobody wants it")
	}
}

// A file that is damaged, cut off or none is refused before anything of it is used.
func TestFaktoryFileDamaged(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "dump.rdb")
	writeRDB(t, path)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	flipped := slices.Clone(whole)
	flipped[len(flipped)/2] ^= 4
	for _, c := range []struct {
		text []byte
		says string
	}{{flipped, "checksum is wrong"}, {whole[:len(whole)-3], "checksum is wrong"}, {
		[]byte("hello"),
		"no RDB file",
	}, {nil, "no RDB file"}} {
		if err := os.WriteFile(path, c.text, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(t.Context(), "faktory", path); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%d bytes: %v", len(c.text), err)
		}
	}
	// A server may be told to write no checksum.
	clear(whole[len(whole)-rdbTrailer:])
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), "faktory", path); err != nil {
		t.Errorf("without a checksum: %v", err)
	}
	for address, says := range map[string]string{
		path + "?db=x": "not a number", path + "?x": "not understood",
		"/none.rdb": "no such file",
	} {
		if _, err := Open(t.Context(), "faktory", address); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", address, err)
		}
	}
}
