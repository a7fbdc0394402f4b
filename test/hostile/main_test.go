package hostile

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	// The server is run as a process, which the go tool cannot see: without
	// this import it would call a test result of an older server current.
	_ "millrace/internal/cli"
	"millrace/test/harness"
)

var (
	attackTime = flag.Duration("hostile.time", 1500*time.Millisecond, "how long each attack lasts")
	floorTime  = flag.Duration("hostile.floor", 250*time.Millisecond, "a p99 below this is good, whatever it was before")
	onlyAttack = flag.String("hostile.attack", "", "a part of the names of the attacks to run; empty for all")
	onlyAt     = flag.String("hostile.listener", "", "the one listener to attack; empty for all")
)

// program is the server under test, and ports the environment in which it takes
// free ports.
var (
	program string
	ports   []string
)

func TestMain(m *testing.M) {
	if order := os.Getenv(orderVariable); order != "" {
		os.Exit(obey(order))
	}
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "millrace-hostile-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir) //nolint:errcheck // nothing to be done about it
	if program, err = harness.Build(context.Background(), dir); err == nil {
		ports, err = harness.FreePorts(context.Background(), program)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ports = append(ports, "MILLRACE_TARANTOOL15_ADDR=127.0.0.1:0")
	return m.Run()
}
