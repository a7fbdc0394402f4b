//go:build linux

package hostile

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"millrace/internal/dialect/dialecttest"
	client "millrace/internal/wire"
	"millrace/test/harness"
	"millrace/test/tier"
)

// No command does more than a bounded amount of work in one step, whatever was stored before. A
// trial stores much, has clients of all protocols work on queues of their own, and then does the
// one thing that has to touch all that was stored. A server that does it in one step answers
// nobody meanwhile.

var (
	scaleFlag = flag.String("bystander.scale", "0",
		"sizes, separated by commas: times what the trials are made for; 0 is the short form")
	onlyTrial    = flag.String("bystander.trial", "", "a part of the names of the trials to run; empty for all")
	realtimeFlag = flag.Bool("bystander.realtime", false,
		"before others on the machine while something is measured; needs root and chrt")
	bystanderPath = flag.String("bystander.report", "", "document that the figures of the trials are written into")
)

const (
	// growth is how much longer the longest call of a bystander may be than before, in the long form.
	growth = 100 * time.Millisecond
	// The short form also runs on busy and slow machines: what a bystander waits is compared with how
	// long the whole took, which is as much longer on a slow machine. Below shortFloor nothing is said.
	shortFloor = 3 * time.Second
	shortPart  = 3
	// calmLong and calmShort are how long bystanders are measured before, in either form, and bystanderPace how often
	// one does a job.
	calmLong      = 1500 * time.Millisecond
	calmShort     = 600 * time.Millisecond
	bystanderPace = time.Millisecond
	// trialPatience bounds everything that a trial waits for.
	trialPatience = 4 * time.Minute
)

// trial is something that is done to a server that has much stored.
type trial struct {
	name string
	does string // for the report; %d is the size
	// size is that of scale 1, short that of the short form (zero: it is not in it), most the largest that limits
	// allow (zero: any).
	size, short, most int
	args              []string // of the server
	// without names protocols that have no bystander, because the trial concerns what they own.
	without []string
	run     func(f *field)
}

// trials are all trials.
var trials = slices.Concat(dependTrials, fetchTrials, holderTrials, removeTrials, setTrials, listTrials, bulkTrials,
	timeTrials, waitTrials)

// field is one trial on one server.
type field struct {
	trial
	t          *testing.T
	n          int // the size
	scale      int
	dir        string
	server     *harness.Server
	bystanders []*probe      // the last is the echo; none until they are needed
	stop       func()        // ends the bystanders
	began      time.Time     // when what is measured began
	own, ended time.Duration // how long its commands took, and when its effect was there
	rows       []row
}

// row is one measurement.
type row struct {
	what         string
	before       time.Duration // longest call of any bystander
	during, echo time.Duration // the same, and that of the process that does nothing
	worst        string        // whose call that was
	memory, peak uint64
	own, took    time.Duration // the command's own time, and until all of its effect was there
}

// excess is how much longer a bystander had to wait than the machine explains.
func (r row) excess() time.Duration { return r.during - max(r.before, r.echo) }

// limit is how much of that is allowed.
func (r row) limit(scale int) time.Duration {
	if scale > 0 {
		return growth
	}
	return max(shortFloor, r.took/shortPart)
}

// TestBystanders does all trials, one after the other.
func TestBystanders(t *testing.T) {
	var table strings.Builder
	table.WriteString("| what is done | longest call of others before, ms | during | whose | echo's during | the " +
		"command itself, ms | until all is done, ms | memory before, MiB | peak |\n")
	table.WriteString("| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for text := range strings.SplitSeq(*scaleFlag, ",") {
		scale, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("-bystander.scale: %v", err)
		}
		for _, tr := range trials {
			if scale == 0 && tr.short == 0 && *onlyTrial == "" || !strings.Contains(tr.name, *onlyTrial) {
				continue
			}
			t.Run(fmt.Sprintf("%s x%d", tr.name, scale), func(t *testing.T) {
				for _, r := range runTrial(t, tr, scale) {
					fmt.Fprintf(&table, "| %s | %.0f | %.0f | %s | %.0f | %.0f | %.0f | %d | %d |\n",
						r.what, ms(r.before), ms(r.during), r.worst, ms(r.echo), ms(r.own), ms(r.took),
						r.memory>>20, r.peak>>20)
				}
			})
		}
	}
	version, err := harness.Version(t.Context(), program.Bin)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&table, "\n(%s; %s; %s)\n", version, harness.Machine(), time.Now().UTC().Format(time.DateOnly))
	t.Logf("\n%s", &table)
	if *bystanderPath == "" {
		return
	}
	if err := harness.Publish(*bystanderPath, "bystander", table.String()); err != nil {
		t.Fatal(err)
	}
}

// runTrial does one trial on a server of its own and judges it.
func runTrial(t *testing.T, tr trial, scale int) []row {
	t.Helper()
	f := &field{
		trial: tr, t: t, n: tier.Pick(tr.short, tr.short/8), scale: scale,
		dir: filepath.Join(t.TempDir(), "data"), stop: func() {},
	}
	switch {
	case scale > 0:
		f.n = tr.size * scale
	case tr.short == 0: // asked for by name
		f.n = tr.size / 20
	}
	if tr.most > 0 {
		f.n = min(f.n, tr.most)
	}
	if strings.Contains(f.does, "%d") {
		f.does = fmt.Sprintf(f.does, f.n)
	}
	t.Cleanup(func() { f.stop() })
	f.start()
	tr.run(f)
	f.stop()
	if len(f.rows) == 0 {
		t.Errorf("%s measures nothing", tr.name)
	}
	for _, r := range f.rows {
		if over := r.excess(); over > r.limit(scale) {
			t.Errorf("%s: %s waited %v longer than the %v before, want at most %v", r.what, r.worst,
				over.Round(time.Millisecond), r.before.Round(time.Millisecond), r.limit(scale))
		}
	}
	return f.rows
}

// start starts the server on what the trial has stored so far, which is nothing at first.
func (f *field) start(args ...string) {
	f.t.Helper()
	listeners := append(client.Listeners(), "admin")
	// One connection waits where many would, and there are more queues than the default allows.
	base := []string{
		"serve", "--data-dir", f.dir, "--masenko-heartbeat=20m", "--tarantool-max-waiting=100000",
		"--server-max-queues=16777216",
	}
	server, err := harness.Start(context.WithoutCancel(f.t.Context()), harness.Options{
		Bin: program.Bin, Args: slices.Concat(base, f.args, args),
		Env: program.Env, Listener: listeners[0], Also: listeners[1:], Patience: trialPatience,
	})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(server.Kill)
	f.server = server
}

// restart kills the server and starts it again on the same data. It returns how long that took.
func (f *field) restart(args ...string) time.Duration {
	f.t.Helper()
	f.stop()
	f.server.Kill()
	f.start(args...)
	return f.server.Ready
}

// watch starts the bystanders, unless they are at work.
func (f *field) watch() {
	f.t.Helper()
	if len(f.bystanders) > 0 {
		return
	}
	ctx, cancel := context.WithCancel(f.t.Context())
	for _, d := range drivers() {
		if !slices.Contains(f.without, d.Name) {
			f.bystanders = append(f.bystanders, startProbe(ctx, f.t, d,
				f.server.Addrs[client.Listener(d.Name)], bystanderPace))
		}
	}
	addr, err := startEcho(ctx)
	if err != nil {
		f.t.Fatal(err)
	}
	f.bystanders = append(f.bystanders, startControl(ctx, f.t, addr, bystanderPace))
	f.stop = func() {
		cancel()
		for _, p := range f.bystanders {
			<-p.done
		}
		f.bystanders, f.stop = nil, func() {}
	}
}

// drivers are the protocols that have a bystander.
func drivers() []dialecttest.Driver {
	return []dialecttest.Driver{
		dialecttest.Masenko(), dialecttest.Workq(), dialecttest.Faktory(), dialecttest.Lmstfy(),
		dialecttest.Tarantool(),
		dialecttest.Beanstalkd(), dialecttest.Rest(),
	}
}

// measure does one thing, which returns when all of its effect is there, and notes what the
// bystanders felt of it.
func (f *field) measure(what string, do func()) {
	f.t.Helper()
	defer f.first()()
	f.watch()
	f.pass(f.calm() / 3) // they warm up
	f.longest()
	f.pass(f.calm())
	r := row{what: what}
	r.before, _, _ = f.longest()
	memory, err := harness.ReadMemory(f.server.Pid())
	if err == nil {
		err = harness.ResetPeak(f.server.Pid())
	}
	if err != nil {
		f.t.Fatal(err)
	}
	f.own = 0
	f.began, f.ended = time.Now(), 0
	do()
	r.took, r.own = f.ended, f.own
	if r.took == 0 {
		r.took = time.Since(f.began)
	}
	f.turns(3)
	r.during, r.worst, r.echo = f.longest()
	r.memory = memory.Resident
	if memory, err = harness.ReadMemory(f.server.Pid()); err != nil {
		f.t.Fatal(err)
	}
	r.peak = memory.Peak
	f.note(r)
}

// first has the server and this process run before all others, if that is asked for, until end is called.
func (f *field) first() (end func()) {
	f.t.Helper()
	if !*realtimeFlag {
		return func() {}
	}
	schedule := func(args ...string) {
		for _, pid := range []int{os.Getpid(), f.server.Pid()} {
			if out, err := exec.CommandContext(f.t.Context(), "chrt",
				append(args, strconv.Itoa(pid))...).CombinedOutput(); err != nil {
				f.t.Fatalf("chrt: %v: %s", err, out)
			}
		}
	}
	schedule("-a", "-r", "-p", "1")
	return func() { schedule("-a", "-o", "-p", "0") }
}

func (f *field) note(r row) {
	f.t.Helper()
	f.t.Logf("%s: longest call %.0f ms before, %.0f ms during (%s), echo %.0f ms; the command %.0f ms, all %.0f ms; "+
		"memory %d MiB, peak %d MiB",
		r.what, ms(r.before), ms(r.during), r.worst, ms(r.echo), ms(r.own), ms(r.took), r.memory>>20, r.peak>>20)
	f.rows = append(f.rows, r)
}

// command runs the command that the trial is about, or one of them: the longest counts.
func (f *field) command(do func()) {
	began := time.Now()
	do()
	f.own = max(f.own, time.Since(began))
}

// linger watches for a while what is left to be done later, without an effect that can be waited for.
func (f *field) linger() {
	f.t.Helper()
	f.ended = time.Since(f.began)
	f.pass(f.calm())
}

// calm is how long bystanders are measured before.
func (f *field) calm() time.Duration {
	if f.scale > 0 {
		return calmLong
	}
	return calmShort
}

// pass lets some time pass.
func (f *field) pass(d time.Duration) {
	f.t.Helper()
	select {
	case <-time.After(d):
	case <-f.server.Done():
		f.t.Fatalf("the server has ended:\n%s", f.server.Stderr())
	}
}

// turns waits until every bystander has been answered some more times, so that no call that began
// before is still under way.
func (f *field) turns(more int) {
	f.t.Helper()
	for _, p := range f.bystanders {
		from := p.count()
		f.until(p.name+" is served", func() bool { return p.count() >= from+more })
	}
}

// until waits for a condition.
func (f *field) until(what string, met func() bool) {
	f.t.Helper()
	for deadline := time.Now().Add(trialPatience); !met(); f.pass(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			f.t.Fatalf("not within %v: %s", trialPatience, what)
		}
		for _, p := range f.bystanders {
			if err := p.failure(); err != nil {
				f.t.Fatal(err)
			}
		}
	}
}

// longest returns the longest call of any bystander since it was asked last, whose it was, and the
// longest of the echo.
func (f *field) longest() (most time.Duration, whose string, echo time.Duration) {
	f.t.Helper()
	for _, p := range f.bystanders {
		w, err := p.take()
		switch {
		case err != nil:
			f.t.Fatalf("%s is not served: %v", p.name, err)
		case p.name == echoName:
			echo = w.most
		case w.most > most:
			most, whose = w.most, p.name
		}
	}
	return most, whose, echo
}
