package sim

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/record"
)

// deed is the kind of an action.
type deed uint8

const (
	deedCommand deed = iota
	deedTick
	deedSeal
	deedCommit        // not durable
	deedCommitDurable // and all before it
	deedReopen        // the process ends without a word
	deedCrash         // and the disk loses what was not synced
	deedJump          // as deedReopen, and ids go on beyond 32 bits
	deedEndWaits      // nobody may wait any longer
	deedPiece         // one piece of what is left over
	deedProceed       // a fetch from many queues goes on
	deedSent          // a delivery has been handed over
)

var deedNames = [...]string{
	deedCommand: "", deedTick: "tick", deedSeal: "seal", deedCommit: "commit", deedCommitDurable: "commit durably",
	deedReopen: "reopen", deedCrash: "crash", deedJump: "jump", deedEndWaits: "end waits", deedPiece: "piece",
	deedProceed: "proceed", deedSent: "sent",
}

// action is one thing that happens in a run, after some time has passed.
type action struct {
	deed  deed
	pass  time.Duration
	rnd   uint64
	token uint64
	cmd   job.Command
	seal  bool // deedCommand: close the batch before what follows from the command
	later bool // deedCommand: leave a clean-up for later
	keep  int  // deedCrash: percent of the unsynced data that survives
	which int  // deedSent: the delivery
}

func (a action) String() string {
	what := deedNames[a.deed]
	if a.deed == deedCrash {
		what += fmt.Sprintf(", keeping %d%%", a.keep)
	}
	if a.deed == deedSent {
		what += fmt.Sprintf(" %d", a.which)
	}
	if a.deed == deedCommand {
		what = fmt.Sprintf("#%d %s", a.token, show(a.cmd))
	}
	if a.seal {
		what += ", sealed at once"
	}
	if a.later {
		what += ", cleaned up later"
	}
	return fmt.Sprintf("+%v %s", a.pass, what)
}

// settings are what a run is made of besides its actions.
type settings struct {
	options engine.CoreOptions
	onDisk  bool
	// logInMemory keeps the log of a store on disk in memory: a crash then cuts the two off at different places.
	logInMemory bool
	every       int    // how many steps lie between two comparisons of the whole state
	checks      int    // and between two checks of the invariants
	fault       *fault // nil: all is well
}

// source yields the actions of a run until it says false.
type source func(r *run) (action, bool)

// run is a world and the model of it.
type run struct {
	settings

	world  *world
	model  *Model
	now    job.Time
	step   int
	cmds   map[uint64]job.Command
	ledger ledger
	// pushed has for each job the step that its push needs to be in the store, or an
	// earlier one if nobody was told: of callbacks only what came before is known.
	pushed map[job.ID]uint64
	lastID job.ID // of those
	before uint64 // the last step that left changes before this one
	// promises are the answers since the last restart that tell of a change, durable the
	// last step that no crash can undo.
	promises []promise
	durable  uint64

	sealed []*Model // as it was when each of the sealed batches was closed, the oldest first
	// boundaries are the states that the store may be in after a crash: as of the
	// last durable commit and of each commit since. After a restart several may
	// look the same: then the first boundary is any of them.
	boundaries [][]*Model
}

// execute performs a run. It returns what was done, and the first disagreement.
func execute(s settings, next source) (trace []action, err error) {
	r := &run{
		settings: s, model: NewModel(startTime), now: startTime,
		cmds: map[uint64]job.Command{}, pushed: map[job.ID]uint64{}, ledger: ledger{},
	}
	r.model.StepWork = s.options.StepWork
	r.model.NamesPerStep = s.options.NamesPerStep
	r.model.Gated = s.options.Gated
	if n := s.options.KeptHolders; n > 0 {
		r.model.KeptHolders = n
	}
	r.boundaries = [][]*Model{{r.model.Clone()}}
	if r.world, err = newWorld(s); err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	defer r.world.close()
	for {
		a, ok := next(r)
		if !ok {
			break
		}
		trace = append(trace, a)
		if err := guard(func() error { return r.after(a) }); err != nil {
			return trace, err
		}
		r.step++
	}
	if err := guard(r.compareState); err != nil || s.fault != nil {
		return trace, err
	}
	return trace, guard(r.compareNothing)
}

// after lets time pass and then does something. A clean-up is over by then: what
// it has to tell would compete with what is due.
func (r *run) after(a action) error {
	if a.pass > 0 && r.world.busy() {
		if err := r.compareAnswers(r.world.tick(r.now, a.rnd+3), r.tick); err != nil {
			return err
		}
	}
	r.now = r.now.Add(a.pass)
	return r.do(a)
}

func (r *run) do(a action) error {
	w := r.world
	switch a.deed {
	case deedCommand:
		return r.command(a)
	case deedTick:
		return r.compareStep(w.tick(r.now, a.rnd), r.tick)
	case deedEndWaits:
		got := w.tick(r.now, a.rnd)
		if err := r.compareAnswers(got, r.tick); err != nil {
			return err
		}
		w.core.EndWaits(r.now)
		got = append(w.completed(), w.tick(r.now, a.rnd+1)...) // what comes of it may be due
		return r.compareStep(got, func(o Oracle) ([]Completion, error) {
			out := r.model.EndWaits(r.now)
			more, err := r.tick(o)
			return append(out, more...), err
		})
	case deedPiece:
		due := r.model.NextTimer()
		if left := w.core.Unfinished() || w.core.Behind() && !w.sweeping(); !left || due != 0 && due <= r.now {
			return nil
		}
		w.pieces = nil
		if !w.core.Unfinished() {
			w.core.Tick(r.now, a.rnd)
			return r.compareStep(w.completed(), r.tick)
		}
		w.core.Tick(r.now, a.rnd)
		return r.compareStep(w.completed(), func(o Oracle) ([]Completion, error) { return r.model.Piece(r.now, o) })
	case deedProceed:
		return r.proceed(a)
	case deedSent:
		w.sent(r.now, a.which)
		r.model.Sent(&deliveries[a.which])
		return r.compareStep(w.tick(r.now, a.rnd), r.tick)
	case deedSeal:
		if w.seal() {
			r.sealed = append(r.sealed, r.model.Clone())
		}
	case deedCommit, deedCommitDurable:
		done, err := w.commit(a.deed == deedCommitDurable)
		if err != nil {
			return err
		}
		if done {
			if a.deed == deedCommitDurable {
				r.boundaries = r.boundaries[:0]
				r.durable = w.committed
			}
			r.boundaries = append(r.boundaries, []*Model{r.sealed[0]})
			r.sealed = r.sealed[1:]
			if err := r.check(); err != nil {
				return err
			}
			return r.compareQuery()
		}
	case deedJump:
		if w.committed == 0 || r.model.lastID >= farID {
			return nil
		}
		if jumped, err := w.jump(); err != nil || !jumped {
			return err
		}
		for _, m := range r.boundaries[len(r.boundaries)-1] {
			r.ledger.restarted(m.lastID)
			m.lastID = farID - 1
		}
		return r.do(action{deed: deedReopen})
	case deedReopen:
		// What is committed is there, durable or not: the disk has not crashed.
		r.boundaries = r.boundaries[len(r.boundaries)-1:]
		r.durable = w.committed
		if err := w.reopen(r.now); err != nil {
			return err
		}
		return r.recover()
	case deedCrash:
		if err := w.crash(r.now, a.keep, a.rnd); err != nil {
			return err
		}
		return r.recover()
	}
	return nil
}

// command applies a command and what follows from it. The batch may be closed in
// between, so that a crash can come there; and the clean-up after a purge may be
// left for later, so that commands come before it.
func (r *run) command(a action) error {
	w := r.world
	if err := r.catchUp(a); err != nil {
		return err
	}
	r.cmds[a.token] = a.cmd
	before := w.busy()
	got := w.apply(r.now, a.rnd, a.token, a.cmd)
	sweeping := w.sweeping()
	behind, own := w.core.Behind(), len(got)
	counting := w.counting()
	sealed := a.seal && w.seal()
	later := a.later && w.busy() || before
	if !later {
		got = append(got, w.tick(r.now, a.rnd+1)...)
	}
	return r.compareStep(got, func(o Oracle) ([]Completion, error) {
		first := o
		if h, ok := o.(hints); ok {
			h.sweeping = sweeping
			o = h
			h.counting, h.later = counting, later
			if !later && behind { // what the ticks have answered is none of its answers
				h.got, h.behind = got[:own], true
			}
			first = h
		}
		out, err := r.model.Apply(r.now, a.token, a.cmd, first)
		if err != nil {
			return nil, err
		}
		if sealed {
			r.sealed = append(r.sealed, r.model.Clone())
		}
		if later {
			return out, nil
		}
		more, err := r.tick(o)
		return append(out, more...), err
	})
}

// proceed has a fetch go on that takes several steps, one that is due to before.
func (r *run) proceed(a action) error {
	if err := r.catchUp(a); err != nil {
		return err
	}
	for _, token := range r.model.Waiting() {
		if r.model.Walking(token) {
			before := r.world.busy()
			got := r.world.proceed(r.now, a.rnd, token)
			if !before {
				got = append(got, r.world.tick(r.now, a.rnd+1)...)
			}
			return r.compareStep(got, func(o Oracle) ([]Completion, error) {
				out, err := r.model.Continue(r.now, token, o)
				if err != nil || before {
					return out, err
				}
				more, err := r.tick(o)
				return append(out, more...), err
			})
		}
	}
	return nil
}

// catchUp does what must be done before a command: what is due, and a clean-up
// that another one would join. It is compared on its own, because a job may fail
// by its lapse now and by the command again.
func (r *run) catchUp(a action) error {
	due := r.model.NextTimer()
	bulk := false
	switch a.cmd.(type) {
	case *job.Purge, *job.Remove, *job.Flush:
		bulk = true
	default:
	}
	if r.world.busy() && (!bulk || !r.world.sweeping()) && (due == 0 || due > r.now) {
		return nil
	}
	return r.compareAnswers(r.world.tick(r.now, a.rnd+2), r.tick)
}

// tick lets the model do what is due, as the core has. If callers were left over it goes
// along with each Tick: between two of them timers may be due.
func (r *run) tick(o Oracle) (out []Completion, err error) {
	h, ok := o.(hints)
	if !ok || len(r.world.pieces) == 0 {
		return r.model.Tick(r.now, o)
	}
	for _, p := range r.world.pieces {
		h.got, h.behind, h.counting = p.got, p.behind, p.counting
		more, err := r.model.Tick(r.now, h)
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	r.world.pieces = nil
	return out, nil
}

// recover finds out which boundary the world has come back to, and goes on from it.
func (r *run) recover() error {
	r.sealed = nil
	s, err := r.world.stored()
	if err != nil {
		return err
	}
	var same []*Model
	var differ []string
	candidates := slices.Concat(r.boundaries...)
	for i, c := range candidates {
		m := c.Clone()
		m.Restart(r.now, hints{counting: r.world.counting(), stored: func() stored { return s }})
		view, err := s.view(r.now, m.keys)
		if err != nil {
			return err
		}
		d := s.differ(view, m)
		if next := max(s.shard.NextID, 1); next != m.lastID+1 {
			d += fmt.Sprintf("\n  machine: next id %d\n  model:   next id %d", next, m.lastID+1)
		}
		if next := max(s.shard.NextQueue, 1); next != record.QueueID(m.lastQueue+1) {
			d += fmt.Sprintf("\n  machine: next queue %d\n  model:   next queue %d", next, m.lastQueue+1)
		}
		if d != "" {
			differ = append(differ, fmt.Sprintf(" not boundary %d of %d:\n%s", i+1, len(candidates), d))
			continue
		}
		same = append(same, c)
		r.model = m
	}
	if len(same) == 0 {
		return errors.New("after a restart the state is that of no batch boundary:\n" + strings.Join(differ, "\n"))
	}
	r.boundaries = [][]*Model{same}
	if err := r.comparePromises(same); err != nil {
		return err
	}
	for _, c := range same {
		r.ledger.restarted(c.lastID)
	}
	clear(r.pushed)
	r.lastID, r.before = r.model.lastID, 0
	// A clean-up that was cut short goes on.
	return r.compareStep(r.world.tick(r.now, 0), r.tick)
}

// check asserts the invariants, now and then: what breaks one hardly ever mends it.
func (r *run) check() error {
	if r.step%r.checks != 0 {
		return nil
	}
	if err := r.world.honestly(r.world.core.Check); err != nil {
		return err
	}
	if err := r.model.Check(); err != nil {
		return fmt.Errorf("model: %w", err)
	}
	return nil
}

// compareStep lets the model do what the core did, and compares the answers and
// what is left behind.
func (r *run) compareStep(got []answer, do func(Oracle) ([]Completion, error)) error {
	if err := r.compareAnswers(got, do); err != nil {
		return err
	}
	if err := r.check(); err != nil {
		return err
	}
	if err := r.compareWake(); err != nil {
		return err
	}
	if r.step%r.every == 0 {
		return r.compareState()
	}
	return nil
}

func (r *run) compareAnswers(got []answer, do func(Oracle) ([]Completion, error)) error {
	want, err := do(hints{
		got: got, behind: r.world.core.Behind(), counting: r.world.counting(),
		busy: r.options.StepWork < 256, stored: func() stored {
			s, err := r.world.stored()
			if err != nil {
				panic(err)
			}
			return s
		},
	})
	if err != nil {
		return err
	}
	for ; r.lastID < r.model.lastID; r.lastID++ {
		r.pushed[r.lastID+1] = r.before + 1
	}
	defer func() { r.before = max(r.world.committed, r.world.last, r.world.core.Dirty()) }()
	byToken := map[uint64]answer{}
	delivered := map[job.ID]bool{}
	for _, a := range got {
		if _, twice := byToken[a.Token]; twice {
			return fmt.Errorf("#%d %s was answered twice", a.Token, show(r.cmds[a.Token]))
		}
		byToken[a.Token] = a
		if _, ok := r.cmds[a.Token].(*job.Fetch); ok {
			for i := range a.Result.Jobs {
				delivered[a.Result.Jobs[i].ID] = true
			}
		}
	}
	bonds := r.model.Bonds()
	first := r.model.told - uint64(len(want)) + 1
	for i, c := range want {
		cmd := r.cmds[c.Token]
		a, ok := byToken[c.Token]
		if !ok {
			return fmt.Errorf("#%d %s: no answer, want %s", c.Token, show(cmd), showResult(c.Result))
		}
		delete(byToken, c.Token)
		if d := compare(cmd, a.Completion, c, delivered, bonds); d != "" {
			return fmt.Errorf("#%d %s: %s", c.Token, show(cmd), d)
		}
		if r.tells(cmd, &a.Result) {
			if a.needs <= r.before {
				return fmt.Errorf("INV-11: #%d %s may be answered after step %d, but has changed something after "+
					"step %d", a.Token, show(cmd), a.needs, r.before)
			}
			r.promises = append(r.promises, promise{a.Token, first + uint64(i), a.needs})
		}
	}
	for _, a := range got {
		if _, extra := byToken[a.Token]; extra {
			return fmt.Errorf("#%d %s: answered %s, want no answer", a.Token, show(r.cmds[a.Token]),
				showResult(a.Result))
		}
		if err := r.compareNeeds(a); err != nil {
			return err
		}
	}
	return nil
}

// compareNeeds asserts INV-11: who gets a job waits until its push is in the store.
func (r *run) compareNeeds(a answer) error {
	switch r.cmds[a.Token].(type) {
	case *job.Push:
		if len(a.Result.Jobs) == 0 { // else it was there before
			r.pushed[a.Result.ID] = a.needs
		}
	case *job.Atomic:
		for _, id := range a.Result.IDs {
			r.pushed[id] = a.needs
		}
	case *job.Fetch:
		for i := range a.Result.Jobs {
			if n := r.pushed[a.Result.Jobs[i].ID]; n > r.world.committed && a.needs < n {
				return fmt.Errorf("INV-11: job %d was pushed in step %d, of which %d are committed, and is handed "+
					"out after step %d",
					a.Result.Jobs[i].ID, n, r.world.committed, a.needs)
			}
		}
	default:
	}
	return nil
}

// compareWake asserts that the core wants to be woken in time, and not for nothing.
func (r *run) compareWake() error {
	if r.world.busy() {
		if wake := r.world.core.NextWake(); wake > r.now {
			return fmt.Errorf("something is left over, but the core wants to be woken at %d, now is %d", wake, r.now)
		}
		return nil
	}
	for id, j := range r.model.jobs {
		if j.postponed != 0 && !r.world.late[deliveryOf(j.delivery)] {
			return fmt.Errorf("INV-16: the lease of job %d waits for a delivery that the core does not ask for", id)
		}
	}
	next := r.model.NextTimer()
	if r.world.core.NextWake() <= r.now && len(r.world.tick(r.now, 0)) > 0 { // it may want to look ahead
		return errors.New("something was due after all had been done")
	}
	wake := r.world.core.NextWake()
	if wake <= r.now {
		return fmt.Errorf("nothing is due, but the core wants to be woken at %d, now is %d", wake, r.now)
	}
	if next != 0 && wake > next {
		return fmt.Errorf("something is due at %d, but the core wants to be woken at %d", next, wake)
	}
	return nil
}

// compareState compares everything.
func (r *run) compareState() error {
	s, err := r.world.stored()
	if err != nil {
		return err
	}
	view, err := s.view(r.model.now, r.model.keys)
	if err != nil {
		return err
	}
	if d := s.differ(view, r.model); d != "" {
		return errors.New("the states differ:\n" + d)
	}
	return r.ledger.audit(view, r.world.busy())
}

// compareNothing removes everything and asserts that no record is left behind.
func (r *run) compareNothing() error {
	if err := r.do(action{deed: deedEndWaits}); err != nil {
		return err
	}
	cmds := []job.Command{
		&job.SetSchedules{Replace: true}, &job.SetSchedules{Source: job.SourceFile, Replace: true},
		&job.SetHooks{Replace: true}, &job.SetHooks{Source: job.SourceFile, Replace: true},
	}
	for _, ns := range r.model.namespaces() {
		cmds = append(cmds, &job.Flush{Namespace: ns})
	}
	for _, k := range r.model.View().Kept {
		cmds = append(cmds, &job.KeepHolder{KeptHolder: job.KeptHolder{Name: k.Name, Holder: k.Holder}})
	}
	for _, v := range r.model.View().Values {
		cmds = append(cmds, &job.DropValue{Space: v.Space, Name: v.Name})
	}
	for i, c := range cmds {
		if err := r.command(action{token: 1<<40 + uint64(i), cmd: c}); err != nil {
			return err
		}
	}
	// Timers may outlive their jobs, until their time and until their deliveries have been handed over.
	for i := range deliveries {
		r.world.sent(r.now, i)
		r.model.Sent(&deliveries[i])
	}
	if err := r.compareStep(r.world.tick(r.now, 0), r.tick); err != nil { // what the flushes have left over
		return err
	}
	r.now = r.now.Add(100 * 365 * 24 * time.Hour)
	if err := r.compareStep(r.world.tick(r.now, 0), r.tick); err != nil {
		return err
	}
	left := 0
	r.world.core.Storage().Scan(nil, bytes.Repeat([]byte{0xff}, 8), false, func(key, _ []byte) bool {
		if !bytes.Equal(key, record.MetaKey()) && !bytes.Equal(key, record.FormatKey()) {
			left++
		}
		return true
	})
	if left > 0 && len(r.model.queues) == 0 {
		return fmt.Errorf("everything is removed, but %d records are left", left)
	}
	return nil
}
