package server

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"millrace/internal/commitlog/filelog"
)

// identity says who a node is. It is made with its data: a node that has lost its data is another one.
type identity struct {
	id string // NAME/RANDOM

	guard     sync.Mutex // guards what follows
	clusterID string     // which cluster its data is of; empty: of none
}

// The files of a data directory that have the identity.
const (
	nodeFile    = "NODE"
	clusterFile = "CLUSTER"
)

// nameOf returns the name of a node, which is a part of its id.
func nameOf(id string) string {
	name, _, _ := strings.Cut(id, "/")
	return name
}

// newID returns an id that no other node and no other cluster has.
func newID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// openIdentity reads the identity from a data directory, and makes it if there is none.
func (i *identity) openIdentity(dir, name string) (err error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	if i.id, err = readID(dir, nodeFile); err != nil {
		return err
	}
	if i.id == "" {
		i.id = name + "/" + newID()
		if err := writeID(dir, nodeFile, i.id); err != nil {
			return err
		}
	}
	if was := nameOf(i.id); was != name {
		return fmt.Errorf("%s: this is the data of node %s, and cluster.node is %s", dir, was, name)
	}
	i.clusterID, err = readID(dir, clusterFile)
	return err
}

// readID returns what a file has; empty: it is not there.
func readID(dir, file string) (string, error) {
	text, err := os.ReadFile(filepath.Join(dir, file)) //nolint:gosec // in the data directory
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(text)), err
}

// writeID replaces a file, on stable storage.
func writeID(dir, file, id string) error {
	path := filepath.Join(dir, file)
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600) //nolint:gosec // in the data directory
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, id+"\n")
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(path+".new", path)
	}
	return errors.Join(err, filelog.SyncOSDir(dir), filelog.SyncOSDir(filepath.Dir(dir)))
}

// ofCluster returns the identity of the cluster.
func (i *identity) ofCluster() string {
	i.guard.Lock()
	defer i.guard.Unlock()
	return i.clusterID
}

// takeCluster makes this node part of a cluster.
func (i *identity) takeCluster(dir, id string) error {
	i.guard.Lock()
	defer i.guard.Unlock()
	if id == i.clusterID {
		return nil
	}
	if err := writeID(dir, clusterFile, id); err != nil {
		return err
	}
	i.clusterID = id
	return nil
}

// otherCluster returns an error if two nodes are of different clusters.
func otherCluster(own, other string) error {
	if own == other && own != "" {
		return nil
	}
	if other == "" {
		return errors.New("it does not say of which cluster it is")
	}
	return fmt.Errorf("it is of cluster %s, and this node is of cluster %s: a cluster that was created again, "+
		"restored or recovered is another one. "+
		"If its data may go, stop it, empty its data directory, and add it with \"millrace cluster join\"", other, own)
}
