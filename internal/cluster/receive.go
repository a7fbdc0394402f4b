package cluster

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"millrace/internal/commitlog/filelog"
	"millrace/internal/plant"
	"millrace/internal/timing"
)

const (
	// ReceivedMark is the file in the directory of a receiver that tells that the checkpoint in it counts.
	ReceivedMark = "RECEIVED"
	// receivingMark holds the manifest until then.
	receivingMark = "RECEIVING"
	// partSuffix is that of a file that is not there as a whole.
	partSuffix = ".part"
	// keepPart is how long a checkpoint stays that has not come as a whole. The sender keeps it for a shorter time.
	keepPart = 15 * time.Minute
)

// Receiver takes checkpoints of other nodes into a directory, one at a time.
type Receiver struct {
	dir   string
	log   *slog.Logger
	room  func(bytes int64) error
	fatal func(error)
	times timing.Shared

	mu       sync.Mutex // guards what follows
	manifest            // of the checkpoint that is there, or a part of it; without a name: none
	at       position
	conn     net.Conn      // on which it comes; nil: on none
	ended    chan struct{} // closed when the connection is not used any more
	counts   bool          // somebody counts on it: it is not replaced
	expires  *time.Timer
	noRoom   error     // why the last one was not taken; nil: there was room
	noRoomAt time.Time // when that was
}

// noRoomFor is how long a node tells that it had no room, unless it is asked again. A sender that was refused asks more
// often.
const noRoomFor = time.Minute

// OpenReceiver returns the receiver of a directory. If a part of a checkpoint is in it, it can be continued. It asks
// room before it takes anything, with the number of bytes that are to come, and takes nothing if that returns an error.
// It calls fatal if the files of this node cannot be written: then it must end, as with any other of its files.
func OpenReceiver(dir string, log *slog.Logger, room func(bytes int64) error, fatal func(error)) (*Receiver, error) {
	r := &Receiver{dir: dir, log: log, room: room, fatal: fatal}
	text, err := os.ReadFile(r.path(receivingMark))
	if errors.Is(err, fs.ErrNotExist) {
		return r, os.RemoveAll(dir)
	}
	if err != nil {
		return nil, err
	}
	if json.Unmarshal(text, &r.manifest) != nil || r.check() != nil { // it was not written as a whole
		r.manifest = manifest{}
		return r, os.RemoveAll(dir)
	}
	for _, f := range r.Files {
		if size, err := sizeOf(r.path(f.Name)); err != nil {
			return nil, err
		} else if size != f.Size {
			break
		}
		r.at.Files++
	}
	if r.at.Files < len(r.Files) {
		next := r.Files[r.at.Files]
		size, err := sizeOf(r.path(next.Name) + partSuffix)
		if err != nil {
			return nil, err
		}
		if size >= 0 && size <= next.Size {
			r.at.Offset = size
		}
	}
	r.expires = time.AfterFunc(keepPart, r.expire)
	return r, nil
}

// sizeOf returns the size of a file; -1: there is none.
func sizeOf(path string) (int64, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return -1, nil
	}
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (r *Receiver) path(name string) string { return filepath.Join(r.dir, name) }

// check refuses a manifest whose files could not be kept.
func (m *manifest) check() error {
	names := map[string]bool{receivingMark: true, ReceivedMark: true}
	var sum int64
	for _, f := range m.Files {
		if !filepath.IsLocal(f.Name) || filepath.Base(f.Name) != f.Name || names[f.Name] || f.Size < 0 ||
			f.Size > 1<<50-sum {
			return fmt.Errorf("a file with the name %q and %d bytes", f.Name, f.Size)
		}
		names[f.Name] = true
		sum += f.Size
	}
	if m.Checkpoint == "" || len(m.Files) == 0 {
		return errors.New("a checkpoint without a name or files")
	}
	return nil
}

// Progress tells how much has come of a checkpoint that this node is sent; size 0: it is sent none.
func (r *Receiver) Progress() (bytes, size int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.have(), r.size()
}

// NoRoom tells why this node does not take the checkpoint that it is sent; nil: it takes it, or is sent none.
func (r *Receiver) NoRoom() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.noRoomAt) > noRoomFor {
		return nil
	}
	return r.noRoom
}

// have returns how many bytes are there. The caller holds r.mu.
func (r *Receiver) have() int64 {
	return (&manifest{Files: r.Files[:r.at.Files]}).size() + r.at.Offset
}

// Times tell how long it took until a checkpoint was there as a whole, from the last time that it began or was
// continued.
func (r *Receiver) Times() timing.Histogram { return r.times.Load() }

// Take receives what comes on a connection, and closes it.
func (r *Receiver) Take(c net.Conn) {
	began := time.Now()
	err := r.take(c)
	_ = c.Close() // the other side sees it
	if ofFile(err) {
		r.fatal(err)
		return
	}
	if err != nil {
		if r.NoRoom() == nil { // which the log tells once
			r.log.Warn("the data of another node was not received as a whole", slog.Any("error", err))
		}
		return
	}
	r.times.Observe(time.Since(began))
}

// ofFile reports whether an error is one of files, and not of a connection.
func ofFile(err error) bool {
	var path *fs.PathError
	var link *os.LinkError
	return errors.As(err, &path) || errors.As(err, &link)
}

func (r *Receiver) take(c net.Conn) error {
	peer := patient{c}
	var m manifest
	if err := readFrame(peer, &m, manifestMax); err != nil {
		return err
	}
	if err := m.check(); err != nil {
		return err
	}
	if err := r.begin(&m, c); err != nil {
		return errors.Join(err, writeFrame(peer, position{Refused: err.Error()}))
	}
	defer r.end()
	// While the connection is this one nobody else changes the position.
	if err := writeFrame(peer, r.at); err != nil {
		return err
	}
	for r.at.Files < len(m.Files) {
		f := m.Files[r.at.Files]
		if err := r.receive(peer, f); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	if err := filelog.SyncOSDir(r.dir); err != nil {
		return err
	}
	return writeFrame(peer, r.at)
}

// begin makes a connection the one on which a checkpoint comes. A node that leads in a later term than the one whose
// checkpoint was coming takes its place, and so does the same one that begins again.
func (r *Receiver) begin(m *manifest, c net.Conn) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		if m.Term < r.Term {
			return fmt.Errorf("another node leads: this is a checkpoint of term %d, and one of term %d was begun",
				m.Term, r.Term)
		}
		if r.counts {
			return errors.New("this node takes over what it has received before")
		}
		if r.conn == nil {
			break
		}
		_ = r.conn.Close() // who reads from it notices
		ended := r.ended
		r.mu.Unlock()
		<-ended
		r.mu.Lock()
	}
	if r.expires != nil {
		r.expires.Stop()
	}
	resumes := m.Checkpoint == r.Checkpoint && slices.Equal(m.Files, r.Files)
	if !resumes {
		if r.Checkpoint != "" {
			r.log.Info("what was received of another checkpoint is of no use any more: beginning again",
				slog.Int64("bytes", r.have()))
		}
		if err := r.replace(m); err != nil {
			return err
		}
	}
	if err := r.fits(); err != nil {
		r.expires = time.AfterFunc(keepPart, r.expire)
		return err
	}
	r.Term = m.Term
	r.conn, r.ended = c, make(chan struct{})
	r.log.Info("receiving all data from the leader", slog.String("checkpoint", m.Checkpoint),
		slog.Int64("received", r.have()), slog.Int64("of", r.size()))
	return nil
}

// fits tells why there is no room for what is missing. The log tells it once. The caller holds r.mu.
func (r *Receiver) fits() error {
	err := r.room(r.size() - r.have())
	if err != nil && r.noRoom == nil {
		r.log.Error("the data of the cluster is not received", slog.Any("why", err))
	}
	r.noRoom, r.noRoomAt = err, time.Now()
	return err
}

// replace throws away what is there and notes what will be. The caller holds r.mu.
func (r *Receiver) replace(m *manifest) error {
	r.forget()
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(r.dir), os.Mkdir(r.dir, 0o750)); err != nil {
		return err
	}
	f, err := os.Create(r.path(receivingMark))
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	r.manifest = *m
	return nil
}

// forget has the receiver know of no checkpoint. The caller holds r.mu.
func (r *Receiver) forget() { r.manifest, r.at, r.counts = manifest{}, position{}, false }

// end ends the use of a connection. What has come stays for a while.
func (r *Receiver) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conn = nil
	close(r.ended)
	r.expires = time.AfterFunc(keepPart, r.expire)
}

// expire removes a checkpoint that was not continued.
func (r *Receiver) expire() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conn != nil || r.counts || r.Checkpoint == "" {
		return
	}
	r.log.Info("what was received of the data of another node is removed: nobody has sent the rest",
		slog.Int64("bytes", r.have()))
	r.forget()
	if err := os.RemoveAll(r.dir); err != nil {
		r.log.Warn("it could not be removed", slog.Any("error", err))
	}
}

// receive takes what is missing of a file.
func (r *Receiver) receive(from io.Reader, f file) error {
	part := r.path(f.Name) + partSuffix
	out, err := os.OpenFile(part, os.O_CREATE|os.O_RDWR, 0o640) //nolint:gosec // a name that was checked
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }() // it was synced, or does not count
	if err := out.Truncate(r.at.Offset); err != nil {
		return err
	}
	sum := sha256.New()
	if _, err := io.CopyN(sum, out, r.at.Offset); err != nil {
		return err
	}
	n, err := io.CopyBuffer(io.MultiWriter(out, sum, counter{r}), io.LimitReader(from, f.Size-r.at.Offset),
		make([]byte, chunk))
	if err == nil && r.at.Offset < f.Size {
		err = fmt.Errorf("%w after %d bytes", io.ErrUnexpectedEOF, n)
	}
	if err != nil {
		return err
	}
	var want [sha256.Size]byte
	if _, err := io.ReadFull(from, want[:]); err != nil {
		return err
	}
	if !bytes.Equal(sum.Sum(nil), want[:]) && !plant.ChecksumIgnored.On() {
		r.advance(0, -r.at.Offset)
		return errors.Join(errors.New("its checksum is wrong: it is sent again"), os.Remove(part))
	}
	if err := errors.Join(out.Sync(), out.Close(), os.Rename(part, r.path(f.Name))); err != nil {
		return err
	}
	r.advance(1, -r.at.Offset)
	return nil
}

// advance notes what has come.
func (r *Receiver) advance(files int, bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at.Files += files
	r.at.Offset += bytes
}

// counter notes what has come of a file.
type counter struct{ r *Receiver }

// Write notes it.
func (c counter) Write(p []byte) (int, error) {
	c.r.advance(0, int64(len(p)))
	return len(p), nil
}

// Count has a checkpoint that is there as a whole count, also after a crash. Until Taken is called it is not replaced.
func (r *Receiver) Count(checkpoint string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Checkpoint != checkpoint || r.at.Files != len(r.Files) {
		return fmt.Errorf("checkpoint %s is not there as a whole", checkpoint)
	}
	r.counts = true
	err := errors.Join(os.Rename(r.path(receivingMark), r.path(ReceivedMark)), filelog.SyncOSDir(r.dir),
		filelog.SyncOSDir(filepath.Dir(r.dir)))
	if err != nil {
		r.fatal(err)
	}
	return err
}

// Taken has the receiver forget a checkpoint that was moved to where it belongs.
func (r *Receiver) Taken() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget()
}

// Close stops the clock of what was not received as a whole. It stays.
func (r *Receiver) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.expires != nil {
		r.expires.Stop()
	}
}
