package filelog

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"millrace/internal/commitlog"
	"millrace/internal/commitlog/logtest"
	"millrace/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const (
	memDir = "/srv/log"
	testID = 0x6d696c6c72616365
)

// options are those of a log of small segments in memory.
func options(fsys vfs.FS, mode commitlog.Mode) Options {
	return Options{
		FS: fsys, Dir: memDir, ID: testID, Mode: mode, Every: logtest.Every,
		SegmentBytes: logtest.SegmentBytes,
	}
}

// create makes an empty log on stable storage.
func create(tb testing.TB, o Options) {
	tb.Helper()
	if err := o.FS.MkdirAll(o.Dir, 0o700); err != nil {
		tb.Fatal(err)
	}
	// A directory is synced by who makes it.
	for _, dir := range []string{"/", "/srv", o.Dir} {
		if err := SyncDir(o.FS, dir); err != nil {
			tb.Fatal(err)
		}
	}
	if err := Create(o, 1); err != nil {
		tb.Fatal(err)
	}
}

func TestLog(t *testing.T) {
	t.Parallel()
	logtest.Run(t, func(tb testing.TB, mode commitlog.Mode) logtest.Open {
		tb.Helper()
		o := options(vfs.NewMem(), mode)
		create(tb, o)
		return func(from, safe uint64, visit commitlog.Visit) (commitlog.Log, error) {
			return Open(o, from, safe, visit)
		}
	})
}
