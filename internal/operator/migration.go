package operator

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"slices"
	"time"

	"millrace/internal/api"
	"millrace/internal/engine"
	"millrace/internal/job"
)

// A migration brings over what another server has. Each line has an id, which stays marked as arrived after its job has
// been worked off: a run that is repeated, or goes on after it was cut off, brings nothing twice. Marks are stored
// together with what they are about, one value each, in a space of the source's own.

// Arrived is what a line of a migration asks for.
type Arrived struct {
	ID   string
	Cmd  job.Command // a Push, or what makes a queue as it was
	Lost string      // what of it stays behind
	Gone bool        // there is no such job any more: forget the ID
}

const (
	migrationSpace   = "admin.migration"
	arrivedSpace     = "admin.arrived:" // followed by the source
	migrationLineMax = 10_000
	migrationStep    = 500 // jobs in one unit, which hold up everybody else
	migrationMax     = 100 // sources
	// arrivedMax bounds the marks of all sources together; one takes about 50 bytes on disk.
	arrivedMax = 200_000_000
	// arrivedFor is how long the marks of a source are kept after the last request.
	arrivedFor = 60 * 24 * time.Hour
	// dropStep is how many marks are dropped together.
	dropStep = 2000
	idMax    = 64 // bytes of an id that is a name as it is
)

var sourceName = regexp.MustCompile(`^[A-Za-z0-9._:@/+-]{1,200}$`)

// markName is the name of the value that marks an id.
func markName(id string) string {
	if len(id) <= idMax {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "#" + hex.EncodeToString(sum[:])
}

// Migrations lists the sources of which something has arrived.
func (s *Service) Migrations() ([]api.Migration, error) {
	values, err := s.engine.Values(migrationSpace, "", 0)
	if err != nil {
		return nil, api.Refusal(err)
	}
	out := make([]api.Migration, len(values))
	for i, v := range values {
		if err := json.Unmarshal(v.Value, &out[i]); err != nil {
			return nil, api.ProblemConflict.New("what is known of the migration from %q cannot be read", v.Name)
		}
	}
	return out, nil
}

// ForgetMigration forgets what has arrived from a source, a part of it at a time. It reports whether that was all.
func (s *Service) ForgetMigration(ctx context.Context, source string) (done bool, err error) {
	s.work.migrate.Lock()
	defer s.work.migrate.Unlock()
	known, err := s.Migrations()
	if err != nil {
		return false, err
	}
	for i := range known {
		if known[i].Source == source {
			return s.dropMarks(ctx, &known[i])
		}
	}
	return false, api.NotFound("nothing has arrived from %q: GET %s/migrations lists what is known", source,
		api.PathAPI)
}

// dropMarks drops some marks of a source, and the source with the last.
func (s *Service) dropMarks(ctx context.Context, m *api.Migration) (done bool, err error) {
	values, err := s.engine.Values(arrivedSpace+m.Source, "", dropStep)
	if err != nil {
		return false, api.Refusal(err)
	}
	if done = len(values) < dropStep; done {
		values = append(values, engine.NamedValue{})
	}
	cmds := make([]job.Command, len(values))
	for i := range values {
		cmds[i] = &job.DropValue{Space: arrivedSpace + m.Source, Name: values[i].Name}
	}
	if done {
		cmds[len(cmds)-1] = &job.DropValue{Space: migrationSpace, Name: m.Source}
	}
	for _, r := range s.engine.NewCallerAt(s.opts.Door).Do(ctx, cmds...) {
		if r.Err != nil {
			return false, api.Refusal(r.Err)
		}
	}
	return done, nil
}

// beginMigration finds the source among those that are known, and drops some of what is too old to be kept.
func (s *Service) beginMigration(ctx context.Context, o *api.MigrationOptions) (*api.Migration, error) {
	known, err := s.Migrations()
	if err != nil {
		return nil, err
	}
	now := time.Now().UTC()
	m := &api.Migration{Source: o.Source, Protocol: o.Protocol, Began: now}
	var marks uint64
	for i := range known {
		k := &known[i]
		marks += k.Arrived
		switch {
		case k.Source == o.Source && k.Protocol != o.Protocol:
			return nil, api.ProblemConflict.New("%q is a source of %s: choose another name for this one", k.Source,
				k.Protocol)
		case k.Source == o.Source:
			m = k
		case now.Sub(k.Last) > arrivedFor:
			if _, err := s.dropMarks(ctx, k); err != nil {
				return nil, err
			}
		}
	}
	switch {
	case marks >= arrivedMax:
		return nil, api.ProblemTooMany.New("%d jobs that have arrived are remembered: forget a source that is not "+
			"migrated from any more", marks)
	case m.Arrived == 0 && len(known) >= migrationMax:
		return nil, api.ProblemTooMany.New("%d sources are remembered: forget one that is not migrated from any more",
			len(known))
	}
	m.Last = now
	return m, nil
}

// migration is a request of a migration in progress.
type migration struct {
	s     *Service
	o     api.MigrationOptions
	known *api.Migration
	out   api.MigrationResult
	lines []byte // becomes out.Lines
	taken []takenLine
	gone  []job.Command // marks to be dropped
	ids   map[string]bool
	locks map[[2]string]bool // namespace and name of those that lines of the request take
}

// takenLine is a line that is to arrive.
type takenLine struct {
	line int // from 0 on
	id   string
	cmd  job.Command
	mark job.Command
}

// Migrate takes over what another server of a protocol had, one line of JSON each. What has arrived before, by the
// source and the id, is passed over. Each line is for itself; those that cannot be taken are told.
func (s *Service) Migrate(ctx context.Context, o api.MigrationOptions, text []byte) (api.MigrationResult, error) {
	if !sourceName.MatchString(o.Source) {
		return api.MigrationResult{}, api.Invalid("source: write letters, digits and . _ : @ / + -, at most 200")
	}
	if s.opts.Adopt == nil {
		return api.MigrationResult{}, api.ProblemConflict.New("no protocol is served")
	}
	adopt, err := s.opts.Adopt(o.Protocol, o.Namespace)
	if err != nil {
		return api.MigrationResult{}, api.ProblemConflict.New("%s", err)
	}
	im := &migration{
		s: s, o: o, ids: make(map[string]bool), locks: make(map[[2]string]bool),
		out: api.MigrationResult{Refused: []api.MigrationLine{}, Partly: []api.MigrationLine{}},
	}
	arrived, err := im.read(text, adopt)
	if err != nil {
		return api.MigrationResult{}, err
	}
	s.work.migrate.Lock() // between looking for a mark and making it nobody else may do so
	defer s.work.migrate.Unlock()
	if im.known, err = s.beginMigration(ctx, &o); err != nil {
		return api.MigrationResult{}, err
	}
	if err := im.choose(ctx, arrived); err != nil {
		return api.MigrationResult{}, err
	}
	err = im.push(ctx)
	im.out.Lines = string(im.lines)
	return im.out, err
}

// read reads the lines.
func (im *migration) read(text []byte, adopt func(line []byte) (Arrived, error)) ([]Arrived, error) {
	var all []Arrived
	for line := range bytes.Lines(text) {
		n := len(im.lines)
		if n == migrationLineMax {
			return nil, api.Invalid("at most %d lines at a time", migrationLineMax)
		}
		im.lines = append(im.lines, api.LineArrived)
		a, err := adopt(line)
		if err == nil && a.ID == "" {
			err = api.Invalid("it has no id")
		}
		if err != nil {
			im.refuse(n, a.ID, detailOf(err))
		} else if push, ok := a.Cmd.(*job.Push); ok {
			im.out.Namespace = push.Spec.Namespace
		}
		all = append(all, a)
	}
	return all, nil
}

func (im *migration) refuse(line int, id, problem string) {
	im.lines[line] = api.LineRefused
	im.out.Refused = append(im.out.Refused, api.MigrationLine{Line: line + 1, ID: id, Problem: short(problem)})
}

// partly notes what of a line stays behind, if something does.
func (im *migration) partly(line int, id, lost string) {
	if lost != "" {
		im.out.Partly = append(im.out.Partly, api.MigrationLine{Line: line + 1, ID: id, Problem: lost})
	}
}

// lock has a job take its lock, unless another job has it: no job stays behind for the sake of a lock.
func (im *migration) lock(v *engine.View, s *job.Spec, line int, id string) error {
	name := [2]string{s.Namespace, s.Lock}
	if !im.locks[name] {
		until, err := v.Locked(s.Namespace, s.Lock)
		if err != nil {
			return err
		}
		if until <= job.TimeOf(time.Now()) {
			im.locks[name] = true
			return nil
		}
	}
	im.unlock(s, line, id)
	return nil
}

// unlock has a job arrive without its lock.
func (im *migration) unlock(s *job.Spec, line int, id string) {
	s.Lock = ""
	im.partly(line, id, "its unique lock: another job has it")
}

// yields takes the lock away from a line that was refused because somebody has just taken it.
func (im *migration) yields(lines []takenLine, refused *job.Error) bool {
	if refused == nil || refused.Kind != job.Locked || refused.Index >= len(lines) {
		return false
	}
	l := &lines[refused.Index]
	p, ok := l.cmd.(*job.Push)
	if ok {
		im.unlock(&p.Spec, l.line, l.id)
	}
	return ok
}

// choose passes over what has arrived before and is refused, has queues made as they were, and makes the pushes.
func (im *migration) choose(ctx context.Context, all []Arrived) error {
	return im.s.view(func(v *engine.View) error {
		for i := range all {
			a := &all[i]
			if im.lines[i] == api.LineRefused {
				continue
			}
			name := markName(a.ID)
			before := im.ids[name]
			im.ids[name] = true
			if !before && im.known.Arrived > 0 {
				var err error
				if _, before, err = v.Value(arrivedSpace+im.o.Source, name); err != nil {
					return err
				}
			}
			if a.Gone {
				im.lines[i] = api.LineGone
				if before {
					im.gone = append(im.gone, &job.DropValue{Space: arrivedSpace + im.o.Source, Name: name})
				}
				continue
			}
			if before {
				im.lines[i] = api.LineRepeated
				im.out.Repeated++
				continue
			}
			im.partly(i, a.ID, a.Lost)
			if p, ok := a.Cmd.(*job.Push); ok && p.Spec.Lock != "" {
				if err := im.lock(v, &p.Spec, i, a.ID); err != nil {
					return err
				}
			}
			if err := im.take(ctx, a, name, i); err != nil {
				return err
			}
		}
		return nil
	})
}

// take puts a line among those that are pushed together. What is no push is done at once; to do it twice does no harm.
func (im *migration) take(ctx context.Context, a *Arrived, name string, line int) error {
	mark := &job.SetValue{Space: arrivedSpace + im.o.Source, Name: name}
	if _, ok := a.Cmd.(*job.Push); !ok {
		if im.o.DryRun {
			im.out.Arrived++
			return nil
		}
		r := im.s.engine.NewCallerAt(im.s.opts.Door).Do(ctx, a.Cmd)[0]
		if r.Err != nil && r.Err.Kind != job.Exists {
			return api.Refusal(r.Err)
		}
		a.Cmd = mark // only the mark is left
	}
	im.taken = append(im.taken, takenLine{line, a.ID, a.Cmd, mark})
	return nil
}

// push pushes what is left, some at a time.
func (im *migration) push(ctx context.Context) error {
	if im.o.DryRun {
		im.out.Arrived += len(im.taken)
		return nil
	}
	caller := im.s.engine.NewCallerAt(im.s.opts.Door)
	if err := im.drop(ctx, caller); err != nil {
		return err
	}
	for from := 0; from < len(im.taken); {
		to := min(from+migrationStep, len(im.taken))
		refused, err := im.unit(ctx, caller, im.taken[from:to])
		if err != nil {
			return err
		}
		if refused < 0 {
			from = to
		} else {
			im.taken = slices.Delete(im.taken, from+refused, from+refused+1)
		}
	}
	return nil
}

// drop drops the marks of jobs that are gone.
func (im *migration) drop(ctx context.Context, caller *engine.Caller) error {
	for marks := range slices.Chunk(im.gone, dropStep) {
		known := *im.known
		known.Arrived -= min(known.Arrived, uint64(len(marks)))
		text, err := json.Marshal(known)
		if err != nil {
			return err
		}
		ops := append(slices.Clone(marks), &job.SetValue{Space: migrationSpace, Name: known.Source, Value: text})
		for _, r := range caller.Do(ctx, ops...) {
			if r.Err != nil {
				return api.Refusal(r.Err)
			}
		}
		*im.known = known
	}
	return nil
}

// unit pushes some jobs together with their marks, whole or not at all. It returns which of them was refused, in which
// case nothing has happened; -1 if none was.
func (im *migration) unit(ctx context.Context, caller *engine.Caller, lines []takenLine) (refused int, err error) {
	n := len(lines)
	known := *im.known
	known.Arrived += uint64(n)
	text, err := json.Marshal(known)
	if err != nil {
		return 0, err
	}
	ops := make([]job.Command, 2*n, 2*n+1)
	for i := range lines {
		ops[i], ops[n+i] = lines[i].cmd, lines[i].mark
	}
	ops = append(ops, &job.SetValue{Space: migrationSpace, Name: known.Source, Value: text})
	e := caller.Do(ctx, &job.Atomic{Ops: ops})[0].Err
	for im.yields(lines, e) {
		e = caller.Do(ctx, &job.Atomic{Ops: ops})[0].Err
	}
	switch {
	case e == nil:
		*im.known = known
		im.out.Arrived += n
		return -1, nil
	case !isOfLine(e.Kind) || e.Index >= n:
		return 0, api.Refusal(e)
	}
	im.refuse(lines[e.Index].line, lines[e.Index].id, e.Text)
	return e.Index, nil
}
