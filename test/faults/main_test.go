//go:build linux

package faults

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	// Some tests run the server as a process, which the go tool cannot see: without
	// this import it would call a test result of an older server current.
	_ "millrace/internal/cli"
	"millrace/test/harness"
	"millrace/test/suite"
)

var (
	seedFlag  = flag.Uint64("faults.seed", 1, "seed of everything that is drawn")
	flipsFlag = flag.Int("faults.flips", 0, "bits that are flipped, one at a time; zero: what the tier asks for")
	tearsFlag = flag.Int("faults.tears", 0, "ways in which the ends of files are torn; zero: what the tier asks for")
	errsFlag  = flag.Int("faults.errors", 8, "operations of each kind that fail, one at a time")
	powerFlag = flag.Int("faults.power", 0, "losses of power; zero: what the tier asks for")

	backupsFlag = flag.Int("faults.backups", 0, "backups under load; zero: what the tier asks for")
)

func TestMain(m *testing.M) {
	code := m.Run()
	if err := leaked(); code == 0 && err != nil {
		_, _ = os.Stderr.WriteString("goroutines left after the tests: " + err.Error() + "\n") // nobody to tell
		code = 1
	}
	if buildDir != "" {
		_ = os.RemoveAll(buildDir) // nothing to be done about it
	}
	os.Exit(code)
}

// leaked returns what runs on that should not. A database that has met an error is left alone by design: the goroutine
// that met it waits for ever, and so do others of the same database. The process ends soon then.
func leaked() error {
	err := goleak.Find()
	if err == nil {
		return nil
	}
	databases, ended := 0, 0
	for left := range strings.SplitSeq(err.Error(), "Goroutine ") {
		if strings.Contains(left, "pebble/v2.(*cleanupManager).mainLoop(") {
			databases++
		}
		switch {
		case strings.Contains(left, "pebblestore.(*fuse).end("):
			ended++
		case strings.Contains(left, " in state ") && !strings.Contains(left, "github.com/cockroachdb/pebble/v2"):
			return err
		}
	}
	if databases > ended {
		return err
	}
	return nil
}

// server returns how to start a server with arguments, on ports of its own.
func server(t *testing.T, args ...string) harness.Options {
	t.Helper()
	p, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return harness.Options{Bin: p.Bin, Args: append([]string{"serve"}, args...), Env: p.Env}
}

// buildDir is where the server was built, if it was.
var buildDir string

// build builds the server the first time that a test needs it.
var build = sync.OnceValues(func() (p suite.Program, err error) {
	if buildDir, err = os.MkdirTemp("", "millrace-faults-"); err == nil {
		err = p.Build(buildDir)
	}
	return p, err
})

// lanes is how many parts a suite is dealt out to, so that it uses all cores.
const lanes = 4

// deal runs do for 0 to n-1, some at a time, until the test has failed.
func deal(t *testing.T, n int, do func(t *testing.T, i int)) {
	t.Helper()
	t.Run("runs", func(t *testing.T) {
		for lane := range min(lanes, n) {
			t.Run(fmt.Sprint(lane), func(t *testing.T) {
				t.Parallel()
				for i := lane; i < n && !t.Failed(); i += lanes {
					do(t, i)
				}
			})
		}
	})
}
