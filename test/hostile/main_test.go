//go:build linux

package hostile

import (
	"flag"
	"os"
	"testing"
	"time"

	// The server is run as a process, which the go tool cannot see: without
	// this import it would call a test result of an older server current.
	_ "millrace/internal/cli"
	"millrace/test/suite"
)

var (
	attackTime = flag.Duration("hostile.time", 1500*time.Millisecond, "how long each attack lasts")
	binaryFlag = flag.String("hostile.bin", "", "the server to test; without it one is built")
	roundCount = flag.Int("hostile.rounds", 1, "how often all attacks are made, of which the medians count")
	reportPath = flag.String("hostile.report", "", "document that the figures are written into")
	floorTime  = flag.Duration("hostile.floor", 250*time.Millisecond,
		"a p99 below this is good, whatever it was before")
	onlyAttack = flag.String("hostile.attack", "", "a part of the names of the attacks to run; empty for all")
	onlyAt     = flag.String("hostile.listener", "", "the one listener to attack; empty for all")
)

// program is the server under test.
var program = suite.Program{Env: []string{"MILLRACE_TARANTOOL15_ADDR=127.0.0.1:0"}}

func TestMain(m *testing.M) {
	if order := os.Getenv(orderVariable); order != "" {
		os.Exit(obey(order))
	}
	flag.Parse()
	program.Bin = *binaryFlag
	os.Exit(suite.Main(m, &program))
}
