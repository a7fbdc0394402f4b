package migrate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/migrate/migratetest"
)

var masenkoChunk, masenkoOp = migratetest.MasenkoChunk, migratetest.MasenkoOp

func masenkoTaskOp(id uint32, queue, name, dead, payload string, at uint32, retry byte, blockers []uint32) []byte {
	t := migratetest.MasenkoTask{
		ID:        id,
		Queue:     queue,
		Name:      name,
		DeadQueue: dead,
		Payload:   payload,
		RunAt:     at,
		Retry:     retry,
		Blockers:  blockers,
	}
	return t.Op()
}

// leaving keeps also what is left.
type leaving struct {
	collect
	left []string
}

func (l *leaving) Leave(a *dialect.Arrival, why string) { l.left = append(l.left, a.ID+" "+why) }

// The newest of the files tells what is there.
func TestMasenko(t *testing.T) {
	t.Parallel()
	now := uint32(time.Now().Unix())
	long := strings.Repeat("q", 255)
	var text []byte
	for _, chunk := range [][]byte{
		masenkoChunk(masenkoTaskOp(1, "q", "done", "", `{"a":1}`, 0, 20, nil)),
		masenkoChunk(masenkoTaskOp(2, "q", "ready", "dead", `{"a":1.50}`, 0, 20, []uint32{}),
			masenkoTaskOp(3, long, "later", "", "null", now+100, 0, nil)),
		masenkoChunk(masenkoOp(2, 1)),
		masenkoChunk(masenkoTaskOp(4, "q", "fails", "dead", "", 0, 3, nil), masenkoOp(4, 4, now+1000)),
		masenkoChunk(masenkoTaskOp(5, "q", "old fail", "", "7", 0, 3, nil)), masenkoChunk(masenkoOp(4, 5)),
		masenkoChunk(masenkoTaskOp(6, "q", "dies", "dead", `"x"`, 0, 0, nil)),
		masenkoChunk(masenkoTaskOp(7, "q", "dies with it", "dead", `"y"`, 0, 0, []uint32{6})),
		masenkoChunk(masenkoTaskOp(11, "q", "dies, too", "dead", `"v"`, 0, 0, []uint32{6})),
		masenkoChunk(masenkoTaskOp(8, "q", "waits", "", `"z"`, 0, 0, []uint32{2, 1})),
		masenkoChunk(masenkoTaskOp(9, "q", "waited", "", `"w"`, now-50, 0, []uint32{1, 99})),
		masenkoChunk(masenkoOp(2, 6), masenkoTaskOp(6, "dead", "dies", "", `"x"`, 0, 0, nil),
			masenkoTaskOp(7, "dead", "dies with it", "", `"y"`, 0, 0, []uint32{6}),
			masenkoOp(2, 11), masenkoTaskOp(11, "dead", "dies, too", "", `"v"`, 0, 0, []uint32{6})),
		masenkoChunk(masenkoOp(8, 10)),
		masenkoChunk(masenkoOp(2, 77)),
	} {
		text = append(text, chunk...)
	}
	dir := writeFiles(t, map[string][]byte{
		"masenko.999.wal": masenkoChunk(
			masenkoTaskOp(50, "old", "old", "", "", 0, 0, nil),
		),
		"masenko.1604000000000000000.wal": text,
		"masenko.inprogress.wal":          {1},
	})
	s, err := Open(t.Context(), "masenko", dir)
	if err != nil {
		t.Fatal(err)
	}
	var c leaving
	if err := s.Read(t.Context(), &c); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Count(t.Context()); err != nil || n != 9 || s.Name() != "masenko:"+dir {
		t.Errorf("%d, %v, %s", n, err, s.Name())
	}
	var got []string
	for _, a := range c.jobs {
		got = append(
			got,
			fmt.Sprintf(
				"%s %s %s %s %s %d %d %d %s",
				a.ID,
				a.Queue[:1],
				a.Type,
				a.State,
				a.Text,
				a.Fails,
				a.MaxFails,
				max(a.RunAt/1e6-1, 0)+1,
				a.DeadQueue,
			),
		)
	}
	want := fmt.Sprintf(`2 q ready ready {"a":1.50} 0 21 1 dead
3 q later scheduled null 0 1 %d 
4 q fails retrying  1 4 %d dead
5 q old fail ready 7 1 4 1 
9 q waited ready "w" 0 1 %d 
6 d dies ready "x" 0 1 1 
7 d dies with it ready "y" 0 1 1 
11 d dies, too ready "v" 0 1 1 `, now+100, now+1000, now-50)
	if text := strings.Join(got, "\n"); text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
	if len(c.left) != 1 || !strings.HasPrefix(c.left[0], "8 it waits for the task 2") {
		t.Errorf("%q", c.left)
	}
}

// What was cut off at the end of the file was never acknowledged; what is wrong elsewhere is told.
func TestMasenkoDamage(t *testing.T) {
	t.Parallel()
	text := masenkoChunk(masenkoTaskOp(1, "q", "one", "", "1", 0, 20, nil))
	whole := len(text)
	text = append(text, masenkoChunk(masenkoTaskOp(2, "q", "two", "", "2", 0, 20, nil))...)
	for cut := range text {
		jobs, err := read(t, "masenko", writeFiles(t, map[string][]byte{"masenko.1.wal": text[:cut]}))
		if want := min(cut/whole, 1); err != nil || len(jobs) != want {
			t.Fatalf("cut at %d: %d jobs, %v", cut, len(jobs), err)
		}
	}
	flip := func(at int) []byte {
		b := append([]byte(nil), text...)
		b[at] ^= 1
		return b
	}
	for _, c := range []struct {
		name string
		text []byte
		jobs int
		want string
	}{
		{"last chunk", flip(len(text) - 1), 1, ""},
		{"zeros", append(text[:whole:whole], make([]byte, 5000)...), 1, ""},
		{"first chunk", flip(whole - 1), 0, "damaged"},
		{"kind", masenkoChunk(masenkoOp(16, 1)), 0, "kind 16"},
		{"length", masenkoChunk(masenkoOp(2, 1, 2)), 0, "kind 2 and of 9 bytes"},
		{"form", masenkoChunk(masenkoOp(1, 1, 2)), 0, "another form"},
		{"short", masenkoChunk([]byte{2}), 0, "another form"},
	} {
		jobs, err := read(t, "masenko", writeFiles(t, map[string][]byte{"masenko.1.wal": c.text}))
		if len(jobs) != c.jobs || (err == nil) != (c.want == "") ||
			err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %d jobs, %v", c.name, len(jobs), err)
		}
	}
}
