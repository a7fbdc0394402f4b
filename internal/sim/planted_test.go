package sim

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"millrace/internal/job"
	"millrace/internal/record"
	"millrace/internal/store"
	"millrace/test/tier"
)

// fault is a bug planted below the core.
type fault struct {
	name   string
	onDisk bool // shows only in crashes
	// scan changes what a scan of committed keys finds.
	scan func(r store.Range, found []pair) []pair
	// keep says whether a change of a batch reaches the store.
	keep func(op store.Op, key []byte) bool
	// torn leaves out the last change of every batch.
	torn bool
	// lazy never syncs.
	lazy bool
	// read changes what a key is read as.
	read func(key, value []byte) []byte
	// hears changes what the core is told to do.
	hears func(job.Command) job.Command
	// early lets every answer leave at once.
	early bool
}

type pair struct{ key, value []byte }

var (
	listSpace   = record.ListStart(nil, 0, record.ListReady)[0]
	timerSpace  = record.TimerFrom(nil, 0)[0]
	keySpace    = record.KeyKey(nil, "", "")[0]
	lockSpace   = record.LockKey(nil, "", "")[0]
	batchSpace  = record.BatchKey(nil, 0, record.BatchState)[0]
	valueSpace  = record.ValueKey(nil, "", "")[0]
	holderSpace = record.HolderKey(nil, "")[0]
	hookSpace   = record.HookKey(nil, "", "")[0]
	alikeSpace  = record.AlikeKey(nil, 0, job.Digest{}, 0)[0]
)

// faults is what the simulation must be able to find.
var faults = []fault{
	{
		name: "a refill reads a ready list in the wrong order",
		scan: func(r store.Range, found []pair) []pair {
			if len(found) > 1 && r.Lo[0] == listSpace && r.Lo[5] == byte(record.ListReady) {
				found[0], found[1] = found[1], found[0]
			}
			return found
		},
	},
	{
		name: "a refill stops one job early",
		scan: func(r store.Range, found []pair) []pair {
			if len(found) > 1 && r.Lo[0] == listSpace && r.Lo[5] == byte(record.ListReady) {
				found = found[:len(found)-1]
			}
			return found
		},
	},
	{
		name: "leases are forgotten at a restart",
		scan: func(r store.Range, found []pair) []pair {
			if r.Lo[0] == listSpace && r.Lo[5] == byte(record.ListLeased) {
				return nil
			}
			return found
		},
	},
	{
		name: "timers beyond the horizon are not read",
		scan: func(r store.Range, found []pair) []pair {
			if r.Lo[0] == timerSpace {
				return nil
			}
			return found
		},
	},
	{
		name: "timers are not stored",
		keep: func(op store.Op, key []byte) bool { return !op.Sets() || key[0] != timerSpace },
	},
	{
		name: "list entries are not deleted",
		keep: func(op store.Op, key []byte) bool {
			return key[0] != listSpace || op != store.OpDelete && op != store.OpRemove
		},
	},
	{
		name: "ranges are not deleted",
		keep: func(op store.Op, _ []byte) bool { return op != store.OpDeleteRange },
	},
	{
		name: "locks are not stored",
		keep: func(op store.Op, key []byte) bool { return !op.Sets() || key[0] != lockSpace },
	},
	{
		name: "keys are not stored",
		keep: func(op store.Op, key []byte) bool { return !op.Sets() || key[0] != keySpace },
	},
	{
		name: "batches are not deleted",
		keep: func(op store.Op, key []byte) bool {
			return key[0] != batchSpace || op != store.OpDelete && op != store.OpRemove
		},
	},
	{
		name: "hooks are not stored",
		keep: func(op store.Op, key []byte) bool { return !op.Sets() || key[0] != hookSpace },
	},
	{
		name: "holders that are kept are not stored",
		keep: func(op store.Op, key []byte) bool { return !op.Sets() || key[0] != holderSpace },
	},
	{
		name: "holders that are kept are not deleted",
		keep: func(op store.Op, key []byte) bool { return op.Sets() || key[0] != holderSpace },
	},
	{
		name: "values are not stored",
		keep: func(op store.Op, key []byte) bool { return !op.Sets() || key[0] != valueSpace },
	},
	{
		name: "the format is not stored",
		keep: func(op store.Op, key []byte) bool { return !op.Sets() || !bytes.Equal(key, record.FormatKey()) },
	},
	{
		name: "who is alike is found in the wrong order",
		scan: func(r store.Range, found []pair) []pair {
			if r.Lo[0] == alikeSpace && len(r.Lo) > 1 {
				slices.Reverse(found)
			}
			return found
		},
	},
	{
		name: "no lease is firm",
		hears: func(cmd job.Command) job.Command {
			if f, ok := cmd.(*job.Fetch); ok {
				loose := *f
				loose.Firm = false
				return &loose
			}
			return cmd
		},
	},
	{
		name: "a lease lapses while its delivery is on its way",
		hears: func(cmd job.Command) job.Command {
			if f, ok := cmd.(*job.Fetch); ok {
				unfollowed := *f
				unfollowed.Delivery = nil
				return &unfollowed
			}
			return cmd
		},
	},
	{name: "answers leave before what they tell is stored", early: true},
	{name: "batches are torn", torn: true},
	{name: "commits are not durable", lazy: true, onDisk: true},
	{
		name: "ids are given out again",
		read: func(key, value []byte) []byte {
			shard, err := record.DecodeShard(value)
			if !bytes.Equal(key, record.MetaKey()) || err != nil || shard.NextID < 2 {
				return value
			}
			shard.NextID--
			return record.AppendShard(nil, &shard)
		},
	},
}

// TestPlantedBugs asserts that the simulation is worth something: each of these
// bugs is found within a moderate number of runs.
func TestPlantedBugs(t *testing.T) {
	t.Parallel()
	for _, f := range tier.Pick(faults, faults[:4]) {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			const runs = 300
			for seed := range uint64(runs) {
				rng := rand.New(rand.NewPCG(seed, 3))
				s := randomSettings(rng)
				s.fault = &f
				s.onDisk = f.onDisk
				if _, err := execute(s, random(rng, 200, f.onDisk)); err != nil {
					t.Logf("found by run %d: %v", seed+1, err)
					return
				}
			}
			t.Errorf("not found in %d runs", runs)
		})
	}
}

// faultyStore is a store with a planted bug.
type faultyStore struct {
	store.Store

	fault   *fault
	resting bool
}

func (s *faultyStore) Scan(r store.Range, visit func(key, value []byte) bool) error {
	if s.fault.scan == nil || s.resting || len(r.Lo) == 0 || (r.Lo[0] == listSpace && len(r.Lo) < 6) {
		return s.Store.Scan(r, visit)
	}
	var found []pair
	if err := s.Store.Scan(r, func(key, value []byte) bool {
		found = append(found, pair{bytes.Clone(key), bytes.Clone(value)})
		return true
	}); err != nil {
		return err
	}
	for _, p := range s.fault.scan(r, found) {
		if !visit(p.key, p.value) {
			return nil
		}
	}
	return nil
}

func (s *faultyStore) Get(dst, key []byte) ([]byte, bool, error) {
	value, ok, err := s.Store.Get(dst, key)
	if err == nil && ok && s.fault.read != nil && !s.resting {
		value = s.fault.read(key, value)
	}
	return value, ok, err
}

func (s *faultyStore) Commit(b *store.Batch, done func(error)) { done(s.commit(b)) }

func (s *faultyStore) commit(b *store.Batch) (err error) {
	var kept store.Batch
	n := 0
	b.Each(func(op store.Op, key, value []byte) bool {
		n++
		if s.fault.keep != nil && !s.fault.keep(op, key) || s.fault.torn && n == b.Len() {
			return true
		}
		switch op {
		case store.OpSet:
			kept.Set(key, value)
		case store.OpInsert:
			kept.Insert(key, value)
		case store.OpDelete:
			kept.Delete(key)
		case store.OpRemove:
			kept.Remove(key)
		case store.OpDeleteRange:
			kept.DeleteRange(key, value)
		case store.OpVoidSet, store.OpVoidDelete: // without effect
		}
		return true
	})
	return store.CommitNow(s.Store, &kept)
}

// TestOracleIsAsked asserts that the model does not follow a random choice that the
// document does not allow.
func TestOracleIsAsked(t *testing.T) {
	t.Parallel()
	m := NewModel(startTime)
	for token, c := range []job.Command{
		&job.Push{Spec: job.Spec{Namespace: "a", Queue: "q"}},
		&job.Push{Spec: job.Spec{Namespace: "a", Queue: "q"}},
		&job.Push{Spec: job.Spec{Namespace: "a", Queue: "r"}},
	} {
		if _, err := m.Apply(startTime, uint64(token), c, silence{}); err != nil {
			t.Fatal(err)
		}
	}
	fetch := &job.Fetch{Namespace: "a", Queues: []string{"q", "r"}, Pick: job.PickRandom, Max: 1}
	for id, legal := range map[job.ID]bool{1: true, 2: false, 3: true, 4: false} {
		got := []answer{{Completion: Completion{Token: 9, Result: job.Result{Jobs: []job.Job{{ID: id}}}}}}
		if _, err := m.Clone().Apply(startTime, 9, fetch, hints{got: got}); (err == nil) != legal {
			t.Errorf("job %d chosen at random: %v", id, err)
		}
	}
}
