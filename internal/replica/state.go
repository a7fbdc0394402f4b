package replica

import (
	"encoding/binary"
	"fmt"
	"time"

	"millrace/internal/job"
	"millrace/internal/store"
)

// State says what a store has of the log. It is written with the changes of every entry.
type State struct {
	Term  uint64 // the last one that has begun
	Node  string // who began it
	Seq   uint64 // of the last batch
	Chain uint64 // of all batches
	Time  job.Time
}

// stateVersion is the version of the encoded form: version, term, seq, chain, time, node.
const (
	stateVersion = 1
	stateSize    = 1 + 4*8
)

func (s *State) encode() []byte {
	p := make([]byte, 0, stateSize+len(s.Node))
	p = append(p, stateVersion)
	for _, n := range []uint64{s.Term, s.Seq, s.Chain, uint64(s.Time)} { //nolint:gosec // goes back the same way
		p = binary.BigEndian.AppendUint64(p, n)
	}
	return append(p, s.Node...)
}

func decodeState(p []byte) (s State, err error) {
	if len(p) == 0 {
		return s, nil // nothing was applied yet
	}
	if p[0] != stateVersion || len(p) < stateSize {
		return s, fmt.Errorf("%w: the store does not say what it has of the replicated log", store.ErrCorrupt)
	}
	s.Term, s.Seq = binary.BigEndian.Uint64(p[1:]), binary.BigEndian.Uint64(p[9:])
	s.Chain, s.Time = binary.BigEndian.Uint64(p[17:]), job.Time(binary.BigEndian.Uint64(p[25:])) //nolint:gosec // comes from encode
	s.Node = string(p[stateSize:])
	return s, nil
}

// NewCluster returns the state with which a cluster begins that is made of data: of a server of its own, which has
// none, or of a node of another cluster. Terms go on with the seconds of the clock, so that none ever comes twice,
// whichever of the two the data was last of.
func NewCluster(state []byte, now time.Time) ([]byte, error) {
	s, err := decodeState(state)
	if err != nil {
		return nil, err
	}
	s.Term = max(s.Term, uint64(now.Unix())) //nolint:gosec // it is after 1970
	s.Node = ""
	return s.encode(), nil
}
