package server

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"millrace/internal/raftlog"
	"millrace/internal/replica"
	"millrace/internal/store/pebblestore"
)

// Survivor is what is left of a cluster on one node that does not run.
type Survivor struct {
	Node    string    `json:"node"`
	Cluster string    `json:"cluster,omitempty"`
	Nodes   []string  `json:"nodes"` // of the cluster, as this node knows
	Index   uint64    `json:"index"` // of the last entry of its log
	Term    uint64    `json:"term"`  // of that entry
	At      time.Time `json:"at"`    // when the leader appended that entry; zero: not known
}

// Inspect tells what a node that does not run has.
func Inspect(dir string) (s Survivor, err error) {
	if err := checkLayout(dir, true); err != nil {
		return s, err
	}
	if !exists(dir, nodeFile) || !exists(dir, logDir) {
		return s, fmt.Errorf("%s is not the data of a node of a cluster", dir)
	}
	id, err := readID(dir, nodeFile)
	if err != nil {
		return s, err
	}
	if s.Cluster, err = readID(dir, clusterFile); err != nil {
		return s, err
	}
	if err := prepareStopped(dir); err != nil {
		return s, err
	}
	store, err := openStopped(dir) // so that nobody else has it open
	if err != nil {
		return s, err
	}
	t, err := raftlog.Inspect(filepath.Join(dir, logDir))
	if err = errors.Join(err, store.Close()); err != nil {
		return s, err
	}
	s.Node, s.Index, s.Term, s.At = nameOf(id), t.Index, t.Term, t.At
	for _, server := range t.Servers {
		s.Nodes = append(s.Nodes, nameOf(server.ID))
	}
	slices.Sort(s.Nodes)
	return s, nil
}

// prepareStopped finishes what a process that was killed has left of the data of another node.
func prepareStopped(dir string) error {
	if err := takeReceived(dir); err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(filepath.Join(dir, receivedDir)), removeLeftovers(dir))
}

// Recover makes a node that does not run the only one of a new cluster, with everything that it has. It returns the
// identity of that. The identity comes first: from then on no node of the old cluster takes it for one of theirs.
func Recover(dir string) (cluster string, err error) {
	if _, err := Inspect(dir); err != nil {
		return "", err
	}
	cluster = newID()
	if err := writeID(dir, clusterFile, cluster); err != nil {
		return "", err
	}
	index, state, err := applyLog(dir)
	if err == nil {
		state, err = replica.NewCluster(state, time.Now())
	}
	if err == nil {
		err = pebblestore.SetState(filepath.Join(dir, storeDir), index, state)
	}
	return cluster, err
}
