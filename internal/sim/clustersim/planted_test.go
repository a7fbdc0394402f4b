package clustersim

import (
	"encoding/binary"
	"hash/crc32"
	"slices"
	"strings"
	"testing"

	"millrace/internal/store"
)

// fault is a bug planted into a cluster.
type fault struct {
	name string

	splitsWrites, forgetsParts, cutsApplied           bool
	wallClock, sameHolders, appliesFirst, answersLost bool
	sharesBytes, noSeq, noTerm, noBeginSeq            bool
	oldRounds, batchesProve, readsOn, forgetsLimits   bool
	forgetsHolders                                    bool

	unproven callKind // answers of this kind need no proof
	asked    []question

	batch   *store.Batch // that is being given
	aliases map[*byte][]byte
}

// faults are what the simulation must be able to find, and how what is found begins.
var faults = []struct {
	fault

	found []string
}{
	{fault{name: "a leader applies before the commit", appliesFirst: true}, []string{"R-1", "R-11"}},
	{fault{name: "the number of a batch is not looked at", noSeq: true}, []string{"R-5"}},
	{fault{name: "the term of a batch is not looked at", noTerm: true}, []string{"R-5"}},
	{fault{name: "a term begins behind a batch that its node does not have", noBeginSeq: true}, []string{"R-5"}},
	{fault{name: "reads are not confirmed", unproven: kindRead}, []string{"R-7: a read"}},
	{fault{name: "refusals are not confirmed", unproven: kindRefusal}, []string{"R-7: a refusal"}},
	{fault{name: "deliveries are not confirmed", unproven: kindDelivery}, []string{"R-6"}},
	{fault{name: "a confirmation from before counts", oldRounds: true}, []string{"R-6", "R-7"}},
	{fault{name: "a batch that was on its way counts as a confirmation", batchesProve: true}, []string{"R-6", "R-7"}},
	{fault{name: "an engine reads on when its term is over", readsOn: true}, []string{"R-1"}},
	{fault{name: "a lost leadership answers", answersLost: true}, []string{"R-3", "R-6", "R-7"}},
	{fault{name: "the index is written apart from the changes", splitsWrites: true}, []string{"R-1", "R-11", "R-4"}},
	{fault{name: "the bytes of a batch are not copied", sharesBytes: true}, []string{"node"}},
	{fault{name: "parts are forgotten at a crash", forgetsParts: true}, []string{"R-5", "R-1"}},
	{fault{name: "a term begins with the wall clock", wallClock: true}, []string{"R-8"}},
	{fault{name: "holders repeat", sameHolders: true}, []string{"R-9"}},
	{fault{name: "a new leader forgets limits", forgetsLimits: true}, []string{"R-14"}},
	{fault{name: "a new leader forgets who is kept", forgetsHolders: true}, []string{"R-15", "batch"}},
	{fault{name: "the log is cut at what is applied", cutsApplied: true}, []string{"R-4"}},
}

// TestPlantedBugs asserts that the simulation is worth something: each of these bugs is found within a moderate number
// of runs, and as what it is.
func TestPlantedBugs(t *testing.T) {
	t.Parallel()
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			const runs = 3000
			for seed := range uint64(runs) {
				planted := f.fault
				_, err := lifetime(seed, &planted, 400, nil)
				if err == nil {
					continue
				}
				if !slices.ContainsFunc(f.found, func(prefix string) bool {
					return strings.HasPrefix(err.Error(), prefix)
				}) {
					t.Errorf("found by run %d, but not as one of %q: %v", seed+1, f.found, err)
				}
				t.Logf("found by run %d: %.200v", seed+1, err)
				return
			}
			t.Errorf("not found in %d runs", runs)
		})
	}
}

// question is a proof that an engine has asked for.
type question struct {
	store *termStore
	done  func(error)
}

// keeps returns what the log keeps of an entry.
func (f *fault) keeps(content []byte) []byte {
	if f.sharesBytes && f.batch != nil && len(content)-atData == len(f.batch.Bytes()) {
		if f.aliases == nil {
			f.aliases = map[*byte][]byte{}
		}
		f.aliases[&content[0]] = f.batch.Bytes()
	}
	return content
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// hears returns what a node takes an entry for.
func (f *fault) hears(n *node, m *meaning) []byte {
	content, e := m.content, &m.entry
	if alias := f.aliases[&content[0]]; alias != nil {
		return append(content[:atData:atData], alias...)
	}
	state, _ := n.replica.State()
	if f.noBeginSeq && e.kind == kindBegin {
		p := append([]byte(nil), content...)
		binary.BigEndian.PutUint64(p[atSeq:], state.Seq)
		binary.BigEndian.PutUint64(p[atChain:], state.Chain)
		return sealed(p)
	}
	if e.kind != kindBatch || e.parts != 1 || !n.replica.Whole() || !f.noSeq && !f.noTerm {
		return content
	}
	p := append([]byte(nil), content...)
	if f.noSeq && e.term == state.Term {
		binary.BigEndian.PutUint64(p[atSeq:], state.Seq+1)
	}
	if f.noTerm {
		binary.BigEndian.PutUint64(p[atTerm:], state.Term)
	}
	binary.BigEndian.PutUint64(p[atChain:], chained(state.Chain, e.data))
	return sealed(p)
}

// sealed makes the checksum of an entry right.
func sealed(p []byte) []byte {
	binary.BigEndian.PutUint32(p[2:], crc32.Checksum(p[atTerm:], castagnoli))
	return p
}

// chained is how the chain goes on behind a batch.
func chained(chain uint64, data []byte) uint64 {
	var p [12]byte
	binary.BigEndian.PutUint64(p[:], chain)
	binary.BigEndian.PutUint32(p[8:], crc32.Checksum(data, castagnoli))
	return uint64(crc32.Checksum(p[:], castagnoli))<<32 | uint64(crc32.ChecksumIEEE(p[:]))
}

// afterStep gives the proof at once that answers of some kind wait for.
func (f *fault) afterStep(g *reign) {
	if len(f.asked) == 0 {
		return
	}
	if len(g.kinds) == 1 && g.kinds[f.unproven] {
		asked := f.asked
		f.asked = nil
		for _, q := range asked {
			q.done(nil)
		}
	}
	f.flush()
}

// flush asks for the other proofs.
func (f *fault) flush() {
	for len(f.asked) > 0 {
		q := f.asked[0]
		f.asked = f.asked[1:]
		q.store.Term.Confirm(q.done)
	}
}
