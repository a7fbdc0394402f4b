package migrate

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"millrace/internal/dialect/masenko/masenkotest"
	"millrace/internal/dialect/workq/workqtest"
	"millrace/internal/migrate/migratetest"

	"millrace/test/clients/kit"
)

// writeFile writes a file into a directory of its own, which it returns.
func writeFile(t *testing.T, name string, text []byte) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// fillWorkq writes a command log with so many ready jobs, and one of every other state.
func fillWorkq(ready int) (log *migratetest.WorkqLog, payloads map[string]string) {
	payloads = make(map[string]string)
	log = migratetest.NewWorkqLog()
	now := time.Now()
	add := func(name, payload string, priority int64, at time.Time) [16]byte {
		id := uuid.New()
		payloads[id.String()] = payload
		log.Add(migratetest.WorkqJob{
			ID:          id,
			Name:        name,
			Payload:     []byte(payload),
			TTR:         60_000,
			TTL:         100_000_000,
			Priority:    priority,
			MaxAttempts: 2,
			MaxFails:    2,
			At:          at,
			Created:     now,
		})
		return id
	}
	for i := range ready {
		add("work", fmt.Sprintf("%06d\r\n", i), 0, time.Time{})
		if i%10 == 0 {
			gone := add("work", "", 0, time.Time{})
			log.Then(migratetest.WorkqDelete, gone, "")
			delete(payloads, uuid.UUID(gone).String())
		}
	}
	log.Then(migratetest.WorkqLease, add("held", "leased", 0, time.Time{}), "")
	add("later", "scheduled", 0, now.Add(time.Hour))
	log.Then(migratetest.WorkqComplete, add("ended", "done", 0, time.Time{}), "result")
	log.Then(migratetest.WorkqFail, add("ended", "failed", 0, time.Time{}), "why")
	return log, payloads
}

// TestWorkq moves from a Workq server by its command log, whose last record is torn.
func TestWorkq(t *testing.T) {
	t.Parallel()
	const ready = 6000
	log, payloads := fillWorkq(ready)
	whole := len(log.Text)
	log.Then(migratetest.WorkqDelete, [16]byte{1}, "")
	dir := writeFile(t, "000000001.log", log.Text[:whole+7])
	s := kit.Start(t, []string{"web", "workq"})
	everything(t, s, ready+4, "workq", dir)

	c, err := workqtest.Dial(s.Addr("workq"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // it has answered
	last := ""
	work := func(name string) {
		j, err := c.Lease(patience, name)
		if err != nil {
			t.Fatal(err)
		}
		if payloads[j.ID] != string(j.Payload) || name == "work" && string(j.Payload) <= last {
			t.Fatalf("%+v, want %q, after %q", j, payloads[j.ID], last)
		}
		last = string(j.Payload)
		delete(payloads, j.ID)
		if err := c.Complete(j.ID, nil); err != nil {
			t.Fatal(err)
		}
	}
	for range ready {
		work("work")
	}
	work("held")
	for id, payload := range payloads {
		r, err := c.Result(id, 0)
		switch payload {
		case "done":
			if err != nil || !r.Success || string(r.Bytes) != "result" {
				t.Errorf("%+v, %v", r, err)
			}
		case "failed":
			if err != nil || r.Success || string(r.Bytes) != "why" {
				t.Errorf("%+v, %v", r, err)
			}
		default:
			if items, err := c.Inspect(
				"scheduled-jobs later 0 10",
			); payload != "scheduled" || err != nil ||
				len(items) != 1 {
				t.Errorf("%q: %+v, %v", payload, items, err)
			}
		}
	}
	nothing(t, s, ready+4, "workq", dir)
}

// TestMasenko moves from a Masenko server by its write-ahead file, whose last chunk is torn.
func TestMasenko(t *testing.T) {
	t.Parallel()
	const ready = 3000
	var file []byte
	put := func(ops ...[]byte) { file = append(file, migratetest.MasenkoChunk(ops...)...) }
	task := func(id uint32, queue, payload string, runAt uint32) []byte {
		m := migratetest.MasenkoTask{
			ID:        id,
			Queue:     queue,
			Name:      "task",
			DeadQueue: "dead",
			Payload:   payload,
			RunAt:     runAt,
			Retry:     1,
		}
		return m.Op()
	}
	for i := range uint32(ready) {
		put(task(2*i+1, "work", fmt.Sprintf(`{"n":%d,"x":1.50}`, i), 0), task(2*i+2, "work", `"done"`, 0))
		put(migratetest.MasenkoOp(migratetest.MasenkoDelete, 2*i+2))
	}
	soon := uint32(time.Now().Add(time.Hour).Unix())
	put(task(50_000, "later", `1`, soon))
	put(task(50_001, "failed", `2`, 0), migratetest.MasenkoOp(migratetest.MasenkoFail, 50_001, soon))
	put(
		task(50_002, "died", `3`, 0),
		migratetest.MasenkoOp(migratetest.MasenkoDelete, 50_002),
		task(50_002, "dead", `3`, 0),
	)
	blocked := migratetest.MasenkoTask{ID: 50_003, Queue: "blocked", Name: "task", Blockers: []uint32{50_002}}
	put(blocked.Op())
	whole := len(file)
	put(task(60_000, "work", `"never acknowledged"`, 0))
	dir := writeFile(t, "masenko.1604188800000000000.wal", file[:whole+20])

	s := kit.Start(t, []string{"web", "masenko"})
	r := everything(t, s, ready+4, "masenko", dir)
	if len(r.Problems) != 1 || r.Problems[0].ID != "50003" ||
		!strings.Contains(r.Problems[0].Problem, "waits for the task 50002") {
		t.Errorf("%+v", r.Problems)
	}
	c, err := masenkotest.Dial(s.Addr("masenko"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // it has answered
	for i := range ready {
		got, err := c.Fetch(time.Second, "work")
		want := fmt.Sprintf(`{"n":%d,"x":1.50}`, i)
		if err != nil || string(got.Payload) != want || got.Name != "task" {
			t.Fatalf("%+v, %v, want %s", got, err, want)
		}
		if err := c.Ack(got.ID); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := c.Fetch(time.Second, "dead"); err != nil || string(got.Payload) != "3" {
		t.Errorf("%+v, %v", got, err)
	}
	info, err := c.Info()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(info.Queues)
	if err != nil {
		t.Fatal(err)
	}
	for _, queue := range []string{"later", "failed"} {
		if !strings.Contains(string(text), fmt.Sprintf(`"name":%q,"ready":0,"delayed":1`, queue)) {
			t.Errorf("%s: %s", queue, text)
		}
	}
	nothing(t, s, ready+4, "masenko", dir)
}
