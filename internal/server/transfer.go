package server

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"millrace/internal/raftlog"
	"millrace/internal/replica"
)

// The directories of a node below its data directory.
const (
	storeDir    = "store"
	receivedDir = "store.new" // the data of another node, which replaces that of this one once it is whole
	replacedDir = "store.old"
	sentDir     = "store.sent" // links to the files that are being sent
	logDir      = "log"
	// receivedMark is the file that tells that everything was received. It is made last.
	receivedMark = "RECEIVED"
)

// snapshotter gives the data of this node to another one, and takes it. A stream has for each file the length of its
// name and of its content (8 bytes each), its name and its content.
type snapshotter struct{ n *node }

var _ raftlog.Snapshotter = snapshotter{}

func (s snapshotter) path(name string) string { return filepath.Join(s.n.cfg.Data.Dir, name) }

// Settle implements raftlog.Snapshotter.
func (s snapshotter) Settle() error { return s.n.store.Load().Settle() }

// Send implements raftlog.Snapshotter.
func (s snapshotter) Send() (io.ReadCloser, int64, error) {
	dir, err := os.MkdirTemp(s.n.cfg.Data.Dir, sentDir+"-")
	if err != nil {
		return nil, 0, err
	}
	copied := filepath.Join(dir, storeDir)
	out := &sending{dir: dir}
	if err := s.n.store.Load().Copy(copied); err != nil {
		return nil, 0, errors.Join(err, out.Close())
	}
	entries, err := os.ReadDir(copied)
	if err != nil {
		return nil, 0, errors.Join(err, out.Close())
	}
	var size int64
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return nil, 0, errors.Join(err, out.Close())
		}
		out.files = append(out.files, outgoing{filepath.Join(copied, e.Name()), info.Size()})
		size += 16 + int64(len(e.Name())) + info.Size()
	}
	r, w := io.Pipe()
	out.PipeReader = r
	to := &paced{Writer: w, rate: float64(s.n.cfg.Cluster.CatchUpRate), began: time.Now()}
	go func() { _ = w.CloseWithError(out.write(to)) }() // never fails
	return out, size, nil
}

// paced writes no more than so many bytes per second.
type paced struct {
	io.Writer
	rate  float64
	began time.Time
	sent  float64
}

// Write writes, and waits until that was due.
func (p *paced) Write(b []byte) (int, error) {
	n, err := p.Writer.Write(b)
	p.sent += float64(n)
	if ahead := time.Duration(p.sent/p.rate*float64(time.Second)) - time.Since(p.began); ahead > 0 && err == nil {
		<-time.After(ahead)
	}
	return n, err
}

type outgoing struct {
	path string
	size int64
}

// sending is the data of this node as a stream.
type sending struct {
	*io.PipeReader
	dir   string
	files []outgoing
}

func (s *sending) write(w io.Writer) error {
	for _, o := range s.files {
		name := filepath.Base(o.path)
		head := binary.BigEndian.AppendUint64(nil, uint64(len(name)))
		head = binary.BigEndian.AppendUint64(head, uint64(o.size)) //nolint:gosec // not negative
		if _, err := w.Write(append(head, name...)); err != nil {
			return err
		}
		f, err := os.Open(o.path)
		if err != nil {
			return err
		}
		_, err = io.CopyN(w, f, o.size)
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// Close ends the stream and removes the links.
func (s *sending) Close() error {
	if s.PipeReader != nil {
		_ = s.PipeReader.Close() // never fails
	}
	return os.RemoveAll(s.dir)
}

// Receive implements raftlog.Snapshotter.
func (s snapshotter) Receive() (raftlog.Receiver, error) {
	dir := s.path(receivedDir)
	if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o750)); err != nil {
		return nil, err
	}
	r, w := io.Pipe()
	in := &receiving{PipeWriter: w, dir: dir, done: make(chan error, 1)}
	go func() {
		err := receive(r, dir)
		_ = r.CloseWithError(err) // never fails
		in.done <- err
	}()
	return in, nil
}

// receiving takes the data of another node.
type receiving struct {
	*io.PipeWriter
	dir  string
	done chan error
}

func receive(from io.Reader, dir string) error {
	r := bufio.NewReaderSize(from, 1<<20)
	for {
		var head [16]byte
		if _, err := io.ReadFull(r, head[:]); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		nameLen, size := binary.BigEndian.Uint64(head[:]), binary.BigEndian.Uint64(head[8:])
		if nameLen > 255 || size > 1<<40 {
			return fmt.Errorf("a file with a name of %d bytes and a content of %d", nameLen, size)
		}
		name := make([]byte, nameLen)
		if _, err := io.ReadFull(r, name); err != nil {
			return err
		}
		if !filepath.IsLocal(string(name)) || filepath.Base(string(name)) != string(name) {
			return fmt.Errorf("a file with the name %q", name)
		}
		f, err := os.OpenFile(filepath.Join(dir, string(name)), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o640) //nolint:gosec // a local name
		if err != nil {
			return err
		}
		_, err = io.CopyN(f, r, int64(size))
		if err == nil {
			err = f.Sync()
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
}

// Close implements raftlog.Receiver.
func (r *receiving) Close() error {
	_ = r.PipeWriter.Close() // never fails
	if err := <-r.done; err != nil {
		return fmt.Errorf("receive the data of another node: %w", err)
	}
	f, err := os.Create(filepath.Join(r.dir, receivedMark))
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close(), syncPath(r.dir), syncPath(filepath.Dir(r.dir)))
}

// Cancel implements raftlog.Receiver.
func (r *receiving) Cancel() error {
	_ = r.CloseWithError(io.ErrUnexpectedEOF) // never fails
	<-r.done
	return os.RemoveAll(r.dir)
}

func syncPath(path string) error {
	d, err := os.Open(path) //nolint:gosec // in the data directory
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Restore implements raftlog.Snapshotter.
func (s snapshotter) Restore() (*replica.Replica, error) {
	s.n.keys.Load().Stop()
	if err := s.n.store.Load().Close(); err != nil {
		return nil, err
	}
	if err := takeReceived(s.n.cfg.Data.Dir); err != nil {
		return nil, err
	}
	s.n.server.log.Info("data of another node received: this one was further behind than its log reaches back")
	return s.n.openReplica()
}

// takeReceived replaces the data by what was received, if that is whole. A start does it, too, because Raft may count
// on it already when the process is killed in between.
func takeReceived(dir string) error {
	from, to, old := filepath.Join(dir, receivedDir), filepath.Join(dir, storeDir), filepath.Join(dir, replacedDir)
	if _, err := os.Stat(filepath.Join(from, receivedMark)); errors.Is(err, fs.ErrNotExist) {
		return os.RemoveAll(from)
	} else if err != nil {
		return err
	}
	if _, err := os.Stat(to); err == nil {
		if err := errors.Join(os.RemoveAll(old), os.Rename(to, old)); err != nil {
			return err
		}
	}
	// From here on the mark is in the way of nobody: a store does not know it.
	if err := errors.Join(os.Rename(from, to), syncPath(dir), os.Remove(filepath.Join(to, receivedMark)), syncPath(to)); err != nil {
		return err
	}
	return os.RemoveAll(old)
}

// removeLeftovers removes what a process that was killed has left of sending its data.
func removeLeftovers(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, sentDir+"-*"))
	if err != nil {
		return err
	}
	for _, path := range left {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return os.RemoveAll(filepath.Join(dir, replacedDir))
}
