package migrate

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"millrace/internal/dialect"
)

// collect is a Sink that keeps what it takes.
type collect struct{ jobs []dialect.Arrival }

func (c *collect) Take(a *dialect.Arrival) error {
	c.jobs = append(c.jobs, *a)
	return nil
}

func (c *collect) Leave(*dialect.Arrival, string) {}

// binlogRecord makes a record of a binlog: whole with a tube, else a change.
func binlogRecord(id uint64, state byte, tube, body string) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(tube)))
	b = append(b, tube...)
	r := make([]byte, binlogJobSize)
	binary.LittleEndian.PutUint64(r, id)
	binary.LittleEndian.PutUint32(r[8:], 7)
	binary.LittleEndian.PutUint64(r[24:], 60e9)
	binary.LittleEndian.PutUint64(r[48:], 5e9)
	r[76] = state
	if tube != "" {
		binary.LittleEndian.PutUint32(r[32:], uint32(len(body)+2))
		return append(append(append(b, r...), body...), "\r\n"...)
	}
	return append(b, r...)
}

// A binlog of two files: the last record of a job counts, a record that was cut off does not, and zeros are the end.
func TestBinlog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	version := binary.LittleEndian.AppendUint32(nil, binlogVersion)
	write := func(name string, parts ...[]byte) {
		var all []byte
		for _, p := range append([][]byte{version}, parts...) {
			all = append(all, p...)
		}
		if err := os.WriteFile(filepath.Join(dir, name), all, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("binlog.9", binlogRecord(2, 1, "b", "two"), binlogRecord(1, 1, "a", "one"), binlogRecord(3, 1, "a", "gone"),
		make([]byte, 500))
	cut := binlogRecord(5, 1, "a", "cut off")
	write("binlog.10", binlogRecord(1, binlogBuried, "", ""), binlogRecord(3, binlogDeleted, "", ""),
		binlogRecord(4, binlogDelayed, "a", ""), cut[:len(cut)-4])
	s, err := Open(t.Context(), "beanstalkd", dir)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := s.Count(t.Context()); n != 3 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	var c collect
	if err := s.Read(t.Context(), &c); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range c.jobs {
		got = append(got, a.ID+" "+a.Queue+" "+a.State+" "+string(a.Body))
	}
	if text := strings.Join(got, ", "); text != "1 a buried one, 2 b ready two, 4 a scheduled " {
		t.Errorf("%s", text)
	}
	if a := c.jobs[2]; a.RunAt != 5e6 || a.Priority != 7 || a.TTR != 60e9 {
		t.Errorf("%+v", a)
	}
	write("binlog.11", []byte{0, 1, 0, 0})
	if _, err := Open(t.Context(), "beanstalkd", dir); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("%v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "binlog.11"), []byte{5, 0, 0, 0}, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), "beanstalkd", dir); err == nil || !strings.Contains(err.Error(), "version 5") {
		t.Errorf("%v", err)
	}
	if _, err := Open(t.Context(), "beanstalkd", t.TempDir()); err == nil ||
		!strings.Contains(err.Error(), "no files of a binlog") {
		t.Errorf("%v", err)
	}
}
