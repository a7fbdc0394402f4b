package filelog

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"millrace/internal/commitlog"
	"millrace/internal/commitlog/logtest"
)

// TestOnDisk writes to a real file system, past the page cache if that lets it, and looks at the files while they are
// in use. Records of all sizes begin and end anywhere in their blocks.
func TestOnDisk(t *testing.T) {
	t.Parallel()
	for _, mode := range logtest.Modes {
		t.Run(mode.Name, func(t *testing.T) {
			t.Parallel()
			o := Options{
				FS: vfs.Default, Dir: filepath.Join(t.TempDir(), "log"), ID: testID, Mode: mode.Mode,
				Every: logtest.Every, SegmentBytes: 64 << 10,
			}
			if err := os.Mkdir(o.Dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := Create(o, 1); err != nil {
				t.Fatal(err)
			}
			rng, know := rand.New(rand.NewPCG(5, 5)), knowledge{contents: map[uint64][]byte{}}
			for life := range 3 {
				l, err := know.open(o, rng)
				if err != nil {
					t.Fatal(err)
				}
				_, direct := l.file.(interface {
					WriteSynced(p []byte, offset int64) error
				})
				t.Logf("written past the page cache: %t", direct)
				if direct && mode.Mode != commitlog.Fsync {
					t.Error("what nobody waits for is written past the page cache")
				}
				for n := range 40 {
					know.newest++
					know.contents[know.newest] = bytes.Repeat([]byte{byte(know.newest), byte(n)},
						rng.IntN(1<<rng.IntN(17)))
					if err := logtest.Append(l, know.newest, know.contents[know.newest]); err != nil {
						t.Fatal(err)
					}
					if n%5 > 0 {
						continue
					}
					if n == 20 {
						know.trimmed = know.newest - 3
						if err := l.Trim(know.trimmed); err != nil {
							t.Fatal(err)
						}
					}
					from := know.trimmed + 1
					var last uint64
					if err := l.Read(from, know.visit(&last, from)); err != nil || last != know.newest {
						t.Fatalf("life %d: %d of %d records are read: %v", life, last, know.newest, err)
					}
					if err := Read(o.FS, o.Dir, testID, from, know.newest, know.visit(&last, from)); err != nil ||
						last != know.newest {
						t.Fatalf("life %d: the files have %d of %d records: %v", life, last, know.newest, err)
					}
				}
				if l.Stats().Syncs.Count == 0 {
					t.Error("nothing was synced")
				}
				mustClose(t, l)
				know.safe = know.newest
			}
		})
	}
}
