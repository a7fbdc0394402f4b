package offline

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/store"
	"millrace/internal/store/pebblestore"
)

// ErrDamaged is the kind of every error that tells of damaged data. Any other error means that
// the data could not be looked at.
var ErrDamaged = store.ErrCorrupt

// Advised reports whether an error says what to do about it.
func Advised(err error) bool {
	_, ok := errors.AsType[*store.AdviceError](err)
	return ok
}

// Phase is a part of the work.
type Phase string

// The phases, in their order.
const (
	PhaseTables     Phase = "tables"     // checksums of the files; counted in tables
	PhaseRecords    Phase = "records"    // every record is decoded
	PhaseInvariants Phase = "invariants" // and must fit the others; counted in records read
	PhaseCopy       Phase = "copy"       // of a backup; counted in bytes
	PhaseCopied     Phase = "copied"     // checksums of the copy; counted in tables
)

// ProgressFunc is told how far a phase is. A total of zero is not known. The last call of
// a phase has both equal.
type ProgressFunc func(phase Phase, done, total uint64)

// Report is what a check has found.
type Report struct {
	Tables     int
	TableBytes int64
	Records    uint64
	Queues     []job.QueueInfo // by namespace and name
	// Node tells that this is the store of a node of a cluster. What only its log has was not looked at.
	Node bool
	// Unlocked tells why the directory could not be locked, as on a medium that is read-only, so that a server may have
	// changed it meanwhile; nil: it was locked.
	Unlocked error
}

// Jobs returns how many jobs there are, by state.
func (r *Report) Jobs() (counts [job.StateCount]uint64) {
	for i := range r.Queues {
		for state, n := range r.Queues[i].Counts {
			counts[state] += n
		}
	}
	return counts
}

// Check verifies a data directory: that it is one, the checksums of its files, that every
// record can be read, and that the invariants of the engine hold.
func Check(ctx context.Context, dir string, progress ProgressFunc) (Report, error) {
	return withStore(dir, func(s *pebblestore.Store) (Report, error) {
		var r Report
		if err := checkTables(ctx, s, &r, PhaseTables, progress); err != nil {
			return r, err
		}
		return r, checkContent(s, &r, progress)
	})
}

// nodeFile is in the data directory of a node of a cluster.
const nodeFile = "NODE"

var errNode = errors.New("is the data of a node of a cluster, and its newest part is in the log that " +
	"the nodes share: " +
	"make a backup with \"millrace backup\" at a running node, and use that. If the majority is lost, see \"millrace " +
	"cluster recover\"")

// ofNode reports whether a directory is the store in the data directory of a node.
func ofNode(dir string) bool {
	path, err := filepath.Abs(dir)
	if err != nil {
		return false
	}
	_, err = os.Stat(filepath.Join(filepath.Dir(path), nodeFile))
	return err == nil && filepath.Base(path) == "store"
}

// withStore opens the directory for reading, and closes it in the end.
func withStore(dir string, do func(*pebblestore.Store) (Report, error)) (Report, error) {
	if _, err := os.Stat(filepath.Join(dir, nodeFile)); err == nil {
		return Report{}, fmt.Errorf("%s %w", dir, errNode)
	}
	s, err := pebblestore.Open(pebblestore.Options{Dir: dir, ReadOnly: true})
	if err != nil {
		return Report{}, err
	}
	r, err := do(s)
	r.Node = ofNode(dir)
	r.Unlocked = s.Unlocked()
	if err != nil {
		err = fmt.Errorf("%s: %w", dir, err)
		if r.Unlocked != nil {
			err = fmt.Errorf("%w; %w", err, r.Unlocked)
		}
	}
	return r, errors.Join(err, s.Close())
}

func checkTables(ctx context.Context, s *pebblestore.Store, r *Report, phase Phase, progress ProgressFunc) error {
	v, err := s.Verify(ctx, func(done, total int) {
		if done < total {
			progress(phase, uint64(done), uint64(total)) //nolint:gosec // counts
		}
	})
	r.Tables, r.TableBytes = v.Tables, v.TableBytes
	if err == nil {
		progress(phase, uint64(v.Tables), uint64(v.Tables)) //nolint:gosec // counts
	}
	return err
}

func checkContent(s *pebblestore.Store, r *Report, progress ProgressFunc) (err error) {
	r.Records, err = engine.CheckRecords(s, func(n uint64) { progress(PhaseRecords, n, 0) })
	if err != nil {
		return err
	}
	progress(PhaseRecords, r.Records, r.Records)
	if r.Queues, err = engine.NewQuery(s).Queues("", "", 0); err != nil {
		return err
	}
	read := uint64(0)
	err = engine.CheckInvariants(s, job.TimeOf(time.Now()), func(n uint64) {
		read = n
		progress(PhaseInvariants, n, 0)
	})
	if err != nil {
		return err
	}
	read = max(read, r.Records)
	progress(PhaseInvariants, read, read)
	return nil
}
