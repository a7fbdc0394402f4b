package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"millrace/internal/commitlog"
	"millrace/internal/commitlog/filelog"
	"millrace/internal/config"
	"millrace/internal/raftlog"
	"millrace/internal/replica"
	"millrace/internal/store/pebblestore"
)

// convertFile is there while a data directory is made that of a node, or that of a server of its own again, and says
// how far that has come. The command that does it goes on where it was interrupted.
const convertFile = "CONVERT"

// How far a conversion has come.
const (
	initBegun   = "init"         // files are where they were
	initMoving  = "init moving"  // some are below storeDir already
	leaveBegun  = "leave"        // files are where they were
	leaveMoving = "leave moving" // some are back
)

const markerFile = "FORMAT" // makes a directory the data of a server of its own

func exists(dir, name string) bool {
	_, err := os.Lstat(filepath.Join(dir, name))
	return err == nil
}

// checkLayout returns why a directory cannot be the data of this kind of server, with a way out.
func checkLayout(dir string, isNode bool) error {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil //nolint:nilerr // whoever opens it says what is wrong
	}
	stage, err := readID(dir, convertFile)
	switch {
	case err != nil:
		return err
	case stage != "":
		command, _, _ := strings.Cut(stage, " ")
		if command == leaveBegun {
			command += " --to-single"
		}
		return fmt.Errorf("%s: \"millrace cluster %s\" was interrupted: run it again, it goes on where it was", dir,
			command)
	case isNode && exists(dir, markerFile):
		return fmt.Errorf("%s has the data of a server of its own: make it that of the first node of a cluster with "+
			"\"millrace cluster init\", or give the node another directory", dir)
	case !isNode && exists(dir, nodeFile):
		return fmt.Errorf("%s has the data of a node of a cluster: set cluster.node, or make it that of a server of "+
			"its own with \"millrace cluster leave --to-single\"", dir)
	}
	return nil
}

// self returns this node as the configuration has it.
func self(cfg *config.Config) (name, addr string, err error) {
	for _, p := range cfg.Cluster.Peers {
		if p.Name == cfg.Cluster.Node && p.Name != "" {
			return p.Name, p.Addr, nil
		}
	}
	return "", "", errors.New("cluster.node and cluster.peers are not set: name this node and the address at which " +
		"others will reach it")
}

// InitCluster makes the data directory of a server of its own that of the only node of a new cluster. An empty one
// becomes that of a cluster without jobs. Nothing is copied. It returns the identity of the cluster.
func InitCluster(cfg *config.Config) (string, error) {
	dir := cfg.Data.Dir
	name, addr, err := self(cfg)
	if err != nil {
		return "", err
	}
	stage, err := readID(dir, convertFile)
	switch {
	case err != nil:
		return "", fmt.Errorf("data.dir: %w", err)
	case stage == "" && exists(dir, nodeFile):
		return "", fmt.Errorf("data.dir: %s is the data of a node already", dir)
	case stage == "":
		if err := makeSingle(dir); err != nil {
			return "", fmt.Errorf("data.dir: %w", err)
		}
		stage, err = initBegun, writeID(dir, convertFile, initBegun)
	case stage != initBegun && stage != initMoving:
		return "", checkLayout(dir, true)
	}
	if err == nil && stage == initBegun {
		var state []byte
		if state, err = replica.NewCluster(nil, time.Now()); err == nil {
			err = pebblestore.Attach(dir, state)
		}
		if err == nil {
			err = writeID(dir, convertFile, initMoving)
		}
	}
	if err == nil {
		err = moveFiles(dir, filepath.Join(dir, storeDir))
	}
	if err != nil {
		return "", fmt.Errorf("data.dir: %w", err)
	}
	return finishInit(dir, name, addr)
}

// makeSingle makes sure that there is the data of a server of its own that nobody has open.
func makeSingle(dir string) error {
	s, err := pebblestore.Open(pebblestore.Options{Dir: dir})
	if err != nil {
		return err
	}
	return s.Close()
}

func finishInit(dir, name, addr string) (string, error) {
	s, err := openStopped(dir)
	if err != nil {
		return "", err
	}
	index, _ := s.Applied()
	if err := s.Close(); err != nil {
		return "", err
	}
	var id identity
	if err := id.openIdentity(dir, name); err != nil {
		return "", err
	}
	cluster := newID()
	// A log that an interrupted call has made goes: its node may have got another id.
	err = os.RemoveAll(filepath.Join(dir, logDir))
	if err == nil {
		err = raftlog.Create(filepath.Join(dir, logDir), index, raftlog.Server{ID: id.id, Addr: addr})
	}
	if err == nil {
		err = id.takeCluster(dir, cluster)
	}
	if err == nil {
		err = removeFile(dir, convertFile)
	}
	return cluster, err
}

// openStopped opens the data of a node that does not run.
func openStopped(dir string) (*pebblestore.Store, error) {
	return pebblestore.Open(pebblestore.Options{
		Dir: filepath.Join(dir, storeDir), OpenLog: func(uint64, uint64, commitlog.Visit) (commitlog.Log, error) {
			return replica.Log{}, nil
		},
	})
}

// moveFiles moves the files of a store. Those of the node itself stay.
func moveFiles(from, to string) error {
	if err := os.MkdirAll(to, 0o750); err != nil {
		return err
	}
	list, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range list {
		switch name := e.Name(); {
		case !e.Type().IsRegular(), name == nodeFile, name == clusterFile, name == convertFile:
		case name == "LOCK": // each directory has one of its own
			err = os.Remove(filepath.Join(from, name))
		default:
			err = os.Rename(filepath.Join(from, name), filepath.Join(to, name))
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(filelog.SyncOSDir(to), filelog.SyncOSDir(from))
}

func removeFile(dir, name string) error {
	err := os.Remove(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, filelog.SyncOSDir(dir))
}

// LeaveCluster makes the data directory of the last node of a cluster that of a server of its own.
func LeaveCluster(dir string) error {
	stage, err := readID(dir, convertFile)
	switch {
	case err != nil:
		return err
	case stage == "" && !exists(dir, nodeFile):
		return fmt.Errorf("%s is not the data of a node of a cluster", dir)
	case stage == "":
		// Before anything changes.
		err = checkAlone(dir)
	case stage != leaveBegun && stage != leaveMoving:
		return checkLayout(dir, true)
	}
	if err == nil && stage == "" {
		stage, err = leaveBegun, writeID(dir, convertFile, leaveBegun)
	}
	if err == nil && stage == leaveBegun {
		_, _, err = applyLog(dir)
		if err == nil {
			err = pebblestore.Detach(filepath.Join(dir, storeDir))
		}
		if err == nil {
			err = writeID(dir, convertFile, leaveMoving)
		}
	}
	if err == nil {
		err = moveFiles(filepath.Join(dir, storeDir), dir)
	}
	for _, name := range []string{storeDir, logDir, nodeFile, clusterFile, convertFile} {
		if err == nil {
			err = errors.Join(os.RemoveAll(filepath.Join(dir, name)), filelog.SyncOSDir(dir))
		}
	}
	return err
}

// checkAlone makes sure that a node is the only one of its cluster: otherwise others may have what it lacks, and go on
// without it.
func checkAlone(dir string) error {
	s, err := openStopped(dir) // so that nobody else has it open
	if err != nil {
		return err
	}
	t, err := raftlog.Inspect(filepath.Join(dir, logDir))
	if err = errors.Join(err, s.Close()); err != nil {
		return err
	}
	id, err := readID(dir, nodeFile)
	if err == nil && (len(t.Servers) != 1 || t.Servers[0].ID != id) {
		err = fmt.Errorf("node %s is not the only one of its cluster, which has %s: start it, take the others out "+
			"with \"millrace cluster remove\", and stop it. "+
			"If a majority of them is lost for good, see \"millrace cluster recover\"", nameOf(id), namesOf(t.Servers))
	}
	return err
}

func namesOf(servers []raftlog.Server) string {
	names := make([]string, len(servers))
	for i, s := range servers {
		names[i] = nameOf(s.ID)
	}
	return strings.Join(names, ", ")
}

// applyLog makes a node that does not run the only one of its cluster and gives its store all that its log has. It
// returns the index of the last entry and the state.
func applyLog(dir string) (index uint64, state []byte, err error) {
	id, err := readID(dir, nodeFile)
	if err != nil {
		return 0, nil, err
	}
	t, err := raftlog.Inspect(filepath.Join(dir, logDir))
	if err != nil {
		return 0, nil, err
	}
	own := raftlog.Server{ID: id}
	for _, s := range t.Servers {
		if nameOf(s.ID) == nameOf(id) {
			own.Addr = s.Addr
		}
	}
	s, err := openStopped(dir)
	if err != nil {
		return 0, nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	r, err := replica.Open(s)
	if err != nil {
		return 0, nil, err
	}
	if index, err = raftlog.Recover(filepath.Join(dir, logDir), r, s.Settle, own); err != nil {
		return 0, nil, err
	}
	_, state = s.Applied()
	return index, state, nil
}
