package machine_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"millrace/internal/engine"
	"millrace/internal/engine/machine"
	"millrace/internal/job"
	"millrace/internal/record"
	"millrace/internal/store"
	"millrace/internal/store/memstore"
)

var update = flag.Bool("update", false, "rewrite the expected lines of the scripts")

// start is the time at which every script begins; times are shown relative to it.
const start job.Time = 1e15

// variant is one way to run a script. What a script shows must not depend on how
// much is in memory, on what is committed when, or on restarts (INV-6, INV-12).
type variant struct {
	name  string
	tiny  bool // as little in memory as possible
	check bool // all invariants after every line
	// reopen restarts the machine after each line after which a restart changes
	// nothing by section 8 of the semantics.
	reopen bool
	commit commitMode
}

type commitMode uint8

const (
	commitEach commitMode = iota // after every line
	commitLag                    // one batch is always sealed and not committed yet
	commitLast                   // only for a restart
)

var variants = []variant{
	{name: "plain", check: true},
	{name: "tiny", tiny: true, check: true, commit: commitLag},
	{name: "reopened", tiny: true, check: true, reopen: true},
	{name: "pending", check: true, commit: commitLast},
	{name: "unchecked", tiny: true, commit: commitLast}, // a check reads, and so could mend what is in memory
}

// TestScripts plays testdata/*.txt. A script is a list of lines:
//
//	# a comment
//	VERB ARG=VALUE FLAG ...     a command, see script_command_test.go
//	  RESULT                    what it answers, and the answers of those who had waited
//
// With -update the result lines are rewritten.
func TestScripts(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range variants {
				got := play(t, v, path, string(text))
				if *update && v == variants[0] {
					if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
						t.Fatal(err)
					}
					text = []byte(got)
				}
				if diff := cmp.Diff(string(text), got); diff != "" {
					t.Fatalf("%s, %s (-want +got):\n%s", path, v.name, diff)
				}
			}
		})
	}
}

// play runs a script and returns it with the results it had.
func play(t *testing.T, v variant, path, text string) string {
	t.Helper()
	s := &script{
		t: t, variant: v, store: &strict{memstore.New(), map[string]int{}}, now: start,
		waits: map[uint64]string{},
	}
	for n, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if strings.HasPrefix(line, "  ") {
			continue // what was expected
		}
		fmt.Fprintln(&s.out, line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		s.where = fmt.Sprintf("%s:%d (%s): %s", path, n+1, v.name, line)
		s.line(line)
	}
	return s.out.String()
}

// script is a script being played.
type script struct {
	t *testing.T
	variant
	where string
	out   strings.Builder

	options  engine.CoreOptions
	store    *strict
	core     *engine.Core
	inflight *store.Batch
	now      job.Time
	token    uint64
	waits    map[uint64]string // the names of those who wait, by token
	readyAt  job.Time          // of the job that was answered last
	grace    bool              // a holder may be in its grace, which a restart would end
}

func (s *script) fatalf(format string, args ...any) {
	s.t.Helper()
	s.t.Fatalf("%s\n%s", s.where, fmt.Sprintf(format, args...))
}

func (s *script) printf(format string, args ...any) { fmt.Fprintf(&s.out, "  "+format+"\n", args...) }

func (s *script) line(line string) {
	s.t.Helper()
	a := s.parse(line)
	if a.verb == "options" {
		s.options = a.options()
		a.end()
		return
	}
	if s.core == nil {
		s.open()
	}
	if run, ok := actions[a.verb]; ok {
		run(s, a)
	} else {
		s.apply(a)
	}
	s.commitSome()
	s.checkNow()
	if s.reopen && s.untouchedByRestart() {
		s.restart()
		s.checkNow()
	}
}

func (s *script) checkNow() {
	s.t.Helper()
	if s.check {
		if err := s.core.Check(); err != nil {
			s.fatalf("%v\n%s", err, s.out.String())
		}
	}
}

func (s *script) open() {
	s.t.Helper()
	o := s.options
	if s.tiny {
		o.Window, o.Resident, o.BodyBytes, o.Horizon = 2, 3, 4, time.Second
		o.TimersPerLoad, o.TimersPerStep, o.GroupWindow, o.Groups, o.Keys = 1, 1, 1, 1, 2
	}
	core, err := engine.OpenCore(s.store, s.now, o)
	if err != nil {
		s.fatalf("open: %v", err)
	}
	s.core = core
}

// restart commits everything and loads another machine. Those who waited are gone.
func (s *script) restart() {
	s.t.Helper()
	s.commitInflight()
	s.seal()
	s.commitInflight()
	clear(s.waits)
	s.grace = false
	s.open()
}

func (s *script) commitSome() {
	switch s.commit {
	case commitEach:
		s.seal()
		s.commitInflight()
	case commitLag:
		s.commitInflight()
		s.seal()
	case commitLast:
	}
}

func (s *script) seal() { s.inflight, _ = s.core.Seal() }

func (s *script) commitInflight() {
	s.t.Helper()
	if s.inflight == nil {
		return
	}
	if err := store.CommitNow(s.store, s.inflight); err != nil {
		s.fatalf("commit: %v", err)
	}
	s.core.Committed()
	s.inflight = nil
}

// untouchedByRestart reports whether a restart now must change nothing: nobody
// waits, no lease ends with its holder and no job is ephemeral.
func (s *script) untouchedByRestart() bool {
	if s.core.Waiting() > 0 || s.grace {
		return false
	}
	s.core.Flush()
	st := s.core.Storage()
	empty := true
	none := func(_, _ []byte) bool {
		empty = false
		return false
	}
	lo, hi := record.EphemeralSpan()
	st.Scan(lo, hi, false, none)
	lo, hi = record.QueuesSpan("")
	st.Scan(lo, hi, false, func(_, value []byte) bool {
		q, err := record.DecodeQueue(value)
		if err != nil {
			s.fatalf("queue: %v", err)
		}
		lo, hi := record.BoundLeases(q.ID)
		st.Scan(lo, hi, false, none)
		return empty
	})
	return empty
}

// apply applies a command of the machine and shows its answer.
func (s *script) apply(a *args) {
	s.t.Helper()
	build, ok := commands[a.verb]
	if !ok {
		s.fatalf("unknown verb %q", a.verb)
	}
	if _, ok := a.vals["grace"]; ok {
		s.grace = true
	}
	cmd := build(a)
	name := a.text("as")
	rnd := a.number("rnd")
	a.end()
	s.token++
	if name == "" {
		name = fmt.Sprintf("w%d", s.token)
	}
	s.waits[s.token] = name
	var res job.Result
	answered, _ := s.core.Apply(s.now, uint64(rnd), s.token, cmd, &res)
	if answered {
		delete(s.waits, s.token)
		s.show("", a.verb, &res)
	} else {
		s.printf("%s waits", name)
	}
	s.completions("")
}

// completions shows the answers of those who had waited.
func (s *script) completions(prefix string) {
	s.t.Helper()
	for _, c := range s.core.Completed() {
		name, ok := s.waits[c.Token]
		if !ok {
			s.fatalf("token %d is answered, which does not wait", c.Token)
		}
		delete(s.waits, c.Token)
		s.show(prefix+name+": ", "", &c.Result)
	}
}

// tick does one step without a command.
func (s *script) tick() (more bool) { return s.core.Tick(s.now, 1) }

// advance lets time pass, step by step as the machine asks for it.
func (s *script) advance(d time.Duration) {
	s.t.Helper()
	target := s.now.Add(d)
	for range 10_000 {
		wake := s.core.NextWake()
		if wake > target {
			s.now = target
			return
		}
		s.now = max(s.now, wake)
		s.tick()
		s.completions(fmt.Sprintf("@%v ", s.now.Sub(start)))
	}
	s.fatalf("the machine always wants to be woken at once")
}

// strict is a store that holds the machine to what it promises of keys that it removes:
// they were set exactly once since they were last gone.
type strict struct {
	*memstore.Store
	sets map[string]int
}

func (s *strict) Commit(b *store.Batch, done func(error)) { done(s.commit(b)) }

func (s *strict) commit(b *store.Batch) (err error) {
	b.Each(func(op store.Op, key, value []byte) bool {
		switch op {
		case store.OpSet, store.OpInsert:
			s.sets[string(key)]++
		case store.OpRemove:
			if n := s.sets[string(key)]; n != 1 {
				err = fmt.Errorf("key %q is removed and was set %d times", key, n)
			}
			delete(s.sets, string(key))
		case store.OpDelete:
			delete(s.sets, string(key))
		case store.OpDeleteRange:
			for k := range s.sets {
				if k >= string(key) && k < string(value) {
					delete(s.sets, k)
				}
			}
		case store.OpVoidSet, store.OpVoidDelete: // without effect
		}
		return err == nil
	})
	if err != nil {
		return err
	}
	return store.CommitNow(s.Store, b)
}

// reader shows queries what the machine sees.
type reader struct{ machine.Storage }

func (r reader) Get(dst, key []byte) ([]byte, bool, error) {
	v, _, ok := r.Storage.Get(dst, key)
	return v, ok, nil
}

func (r reader) Scan(rg store.Range, visit func(key, value []byte) bool) error {
	r.Storage.Scan(rg.Lo, rg.Hi, rg.Reverse, visit)
	return nil
}

func (s *script) query() engine.Query {
	s.core.Flush()
	return engine.NewQuery(reader{s.core.Storage()})
}
