package torture

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	// The server is run as a process, which the go tool cannot see: without
	// this import it would call a test result of an older server current.
	_ "millrace/internal/cli"
	"millrace/test/harness"
)

var (
	killCount  = flag.Int("kills", 50, "how often the server is killed in the kill loop")
	killAfter  = flag.Duration("after", 500*time.Millisecond, "the longest life between two kills; the shortest is 50ms")
	roundCount = flag.Int("rounds", 6, "rounds of the linearizability suite, of several histories each")
	bondKills  = flag.Int("bondkills", 12, "how often the server is killed under batches, unique keys and dependencies")
	soakTime   = flag.Duration("soak", 0, "how long the soak takes; without it only its verdict is tested")
	seedFlag   = flag.Uint64("seed", 0, "seed of everything random in the tests; zero takes one from the clock")
	binaryFlag = flag.String("bin", "", "the server to test; without it one is built")
	reportPath = flag.String("report", "", "document that the figures are written into")
)

// server is the path of the server under test, ports the environment in which it takes free
// ports, and seed what everything random follows from, as far as clients decide.
var (
	server string
	ports  []string
	seed   uint64
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if seed = *seedFlag; seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	dir, err := os.MkdirTemp("", "millrace-torture-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir) //nolint:errcheck // nothing to be done about it
	if server = *binaryFlag; server == "" {
		server, err = harness.Build(context.Background(), dir)
	}
	if err == nil {
		ports, err = harness.FreePorts(context.Background(), server)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// random returns the numbers of one actor.
func random(actor ...string) *rand.Rand {
	return rand.New(rand.NewPCG(seed, hashOf(actor...)))
}

// options says how to start the server on dir, with more settings.
func options(dir string, args ...string) harness.Options {
	return harness.Options{
		Bin: server, Env: ports, Also: protoNames[1:],
		Args: append([]string{"serve", "--data-dir", dir, "--workq-default-ttr", workqLease.String()}, args...),
	}
}

// start starts a server that is killed at the end of the test, if it still runs.
func start(t *testing.T, o harness.Options) *harness.Server {
	t.Helper()
	s, err := harness.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	return s
}

// dataDir is a directory that does not exist yet.
func dataDir(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "data")
}

// connect connects for the length of the test.
func connect[C client](t *testing.T, p proto, s *harness.Server) C {
	t.Helper()
	c, err := dial(p, s.Addrs[p.String()])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // the server may have closed it first
	return c.(C)
}

// life is one run of the server, from its start to its kill.
type life struct {
	number int
	addrs  map[string]string
	// ending is closed before the kill: until then no connection may break.
	ending chan struct{}
	// last tells workers to drain and producers to stop.
	last bool
}

func newLife(number int, s *harness.Server) *life {
	return &life{number: number, addrs: s.Addrs, ending: make(chan struct{})}
}

// stage tells clients which life is on.
type stage struct {
	mu      sync.Mutex
	changed sync.Cond // signals under mu that current has changed
	current *life
}

func newStage() *stage {
	s := &stage{}
	s.changed.L = &s.mu
	return s
}

func (s *stage) set(l *life) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = l
	s.changed.Broadcast()
}

// after waits for a life later than the given one.
func (s *stage) after(number int) *life {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.current == nil || s.current.number <= number {
		s.changed.Wait()
	}
	return s.current
}

// errNoMore ends a client for good, errLifeOver until the next life.
var (
	errNoMore   = errors.New("nothing more to do")
	errLifeOver = errors.New("the life is over")
)

// eachLife runs a client in every life of the server until it has nothing more to
// do. A connection may only break when the life ends; complain hears of others.
func eachLife(st *stage, p proto, complain func(string), run func(*life, client) error) {
	seen := 0
	for {
		l := st.after(seen)
		seen = l.number
		c, err := l.dial(p)
		if err == nil {
			err = run(l, c)
			_ = c.Close() // the server is dead, or the client is done
		}
		if errors.Is(err, errNoMore) {
			return
		}
		select {
		case <-l.ending:
		default:
			complain(fmt.Sprintf("life %d: a client of %v failed while the server was alive: %v", l.number, p, err))
			if l.last {
				return
			}
		}
	}
}

// dial connects. On a busy machine a greeting may come too late for the server's
// patience, which does no harm: nothing has been asked yet.
func (l *life) dial(p proto) (client, error) {
	for tries := 1; ; tries++ {
		c, err := dial(p, l.addrs[p.String()])
		if err == nil || tries == 3 {
			return c, err
		}
	}
}

// wait lets d pass unless the life ends before.
func (l *life) wait(d time.Duration) error {
	select {
	case <-l.ending:
		return errLifeOver
	case <-time.After(d):
		return nil
	}
}
