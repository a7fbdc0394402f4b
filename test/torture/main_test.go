package torture

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	// The server is run as a process, which the go tool cannot see: without
	// this import it would call a test result of an older server current.
	_ "millrace/internal/cli"
	"millrace/internal/wire"
	"millrace/test/harness"
	"millrace/test/suite"
	"millrace/test/tier"
)

var (
	killCount = flag.Int("kills", 0, "how often the server is killed in the kill loop; zero: what "+
		"the tier asks for")
	killAfter = flag.Duration("after", 500*time.Millisecond,
		"the longest life between two kills; the shortest is 50ms")
	roundCount = flag.Int("rounds", 0, "rounds of the linearizability suite, of several histories each; zero: "+
		"what the tier asks for")
	bondKills = flag.Int("bondkills", 0,
		"how often the server is killed under batches, unique keys and dependencies; zero: what the tier asks for")
	faultCount = flag.Int("clusterfaults", 0,
		"how many faults the nodes of a cluster have; zero: a short one of each kind, until there was enough")
	faultKind     = flag.String("clusterfault", "", "only faults of a cluster whose name has this in it")
	clusterRounds = flag.Int("clusterrounds", 0,
		"rounds of the linearizability suite with a cluster, of several histories each; zero: a few with short faults")
	soakTime   = flag.Duration("soak", 0, "how long the soak takes; without it only its verdict is tested")
	seedFlag   = flag.Uint64("seed", 0, "seed of everything random in the tests; zero takes one from the clock")
	binaryFlag = flag.String("bin", "", "the server to test; without it one is built")
	reportPath = flag.String("report", "", "document that the figures are written into")
)

// program is the server under test, and seed what everything random follows from, as far
// as clients decide.
var (
	program suite.Program
	seed    uint64
)

func TestMain(m *testing.M) {
	tier.Parallel(4)
	if seed = *seedFlag; seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	program.Bin = *binaryFlag
	os.Exit(suite.Main(m, &program))
}

// random returns the numbers of one actor.
func random(actor ...string) *rand.Rand {
	return rand.New(rand.NewPCG(seed, hashOf(actor...)))
}

// options says how to start the server on dir, with more settings.
func options(dir string, args ...string) harness.Options {
	return harness.Options{
		Bin: program.Bin, Env: program.Env, Also: wire.Listeners()[1:],
		Args: append([]string{"serve", "--data-dir", dir, "--workq-default-ttr", workqLease.String()}, args...),
	}
}

// connect connects for the length of the test.
func connect[C wire.Client](t *testing.T, p proto, s *harness.Server) C {
	t.Helper()
	c, err := dial(p, p.addr(s))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // the server may have closed it first
	return c.Client.(C)
}

// persist does something with a client of a protocol until it succeeds: in a cluster a connection ends when another
// node leads.
func persist[C wire.Client](t *testing.T, p proto, s *harness.Server, do func(C) error) {
	t.Helper()
	for until := time.Now().Add(2 * time.Minute); ; <-time.After(50 * time.Millisecond) {
		c, err := dial(p, p.addr(s))
		if err == nil {
			err = do(c.Client.(C))
			_ = c.Close() // the server may have closed it first
		}
		if err == nil {
			return
		}
		if time.Now().After(until) {
			t.Fatal(err)
		}
	}
}

// eachLife runs a client of a protocol in every life of the server.
func eachLife(st *suite.Stage, p proto, broke func(int, string), run func(*suite.Life, *client) error) {
	suite.EachLife(st, func(l *suite.Life) (*client, error) { return dialLife(l, p) },
		func(life int, what string) { broke(life, fmt.Sprintf("%v: %s", p, what)) }, run)
}

// dialLife connects. On a busy machine a greeting may come too late for the server's
// patience, which does no harm: nothing has been asked yet.
func dialLife(l *suite.Life, p proto) (*client, error) {
	for tries := 1; ; tries++ {
		s := l.Server
		if n := len(l.Nodes); n > 0 {
			s = l.Nodes[rand.IntN(n)]
		}
		c, err := dial(p, p.addr(s))
		if err == nil || tries == 3 {
			return c, err
		}
	}
}
