package cluster

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"millrace/internal/plant"
)

// A checkpoint goes to another node over a connection of its own. The sender names the checkpoint and its files. The
// receiver answers how much of it is there. The sender sends the rest: of each file what is missing, and then the
// checksum of the whole file. The receiver answers once everything is on stable storage. If the connection breaks,
// what has arrived stays, and the next connection brings the rest.

// manifest is what comes first.
type manifest struct {
	Checkpoint string `json:"checkpoint"` // no other one has this name
	Term       uint64 `json:"term"`       // in which the sender leads
	Files      []file `json:"files"`      // in the order in which they are sent
}

type file struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
}

// manifestMax is how long a manifest may be.
const manifestMax = 16 << 20

func (m *manifest) size() (n int64) {
	for _, f := range m.Files {
		n += f.Size
	}
	return n
}

// position is how much of a checkpoint a receiver has.
type position struct {
	Files  int   `json:"files"`  // that are there as a whole, and verified
	Offset int64 `json:"offset"` // how much of the next one is there
	// Refused tells why nothing is taken; empty: it is.
	Refused string `json:"refused,omitempty"`
}

// stallAfter is how long a connection may stand still.
const stallAfter = 30 * time.Second

// patient is a connection that ends when it stands still.
type patient struct{ net.Conn }

// Read reads.
func (p patient) Read(b []byte) (int, error) {
	if err := p.SetReadDeadline(time.Now().Add(stallAfter)); err != nil {
		return 0, err
	}
	return p.Conn.Read(b)
}

// Write writes.
func (p patient) Write(b []byte) (int, error) {
	if err := p.SetWriteDeadline(time.Now().Add(stallAfter)); err != nil {
		return 0, err
	}
	return p.Conn.Write(b)
}

// Checkpoint is a copy of the data of this node, which can be sent to others.
type Checkpoint struct {
	dir string
	manifest
}

// OpenCheckpoint returns the files of a directory as a checkpoint.
func OpenCheckpoint(name, dir string) (*Checkpoint, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	c := &Checkpoint{dir: dir, manifest: manifest{Checkpoint: name}}
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return nil, err
		}
		c.Files = append(c.Files, file{e.Name(), info.Size()})
	}
	return c, nil
}

// Delivery is how a checkpoint is sent.
type Delivery struct {
	Term uint64 // in which this node leads
	Rate uint64 // bytes per second
	// Sent counts the bytes that were sent.
	Sent *atomic.Uint64
	// Begins is called when it is known how much is there already; nil: nobody is told.
	Begins func(have, size int64)
}

// chunk is how much is written at once.
const chunk = 128 << 10

// Send brings to the node at the other end of a connection what it lacks of the checkpoint.
func (c *Checkpoint) Send(ctx context.Context, conn net.Conn, d Delivery) error {
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // what waits for the other side ends with it
	peer := patient{conn}
	m := c.manifest
	m.Term = d.Term
	if err := writeFrame(peer, m); err != nil {
		return err
	}
	var at position
	if err := readFrame(peer, &at, headerMax); err != nil {
		return err
	}
	if at.Refused != "" {
		return errors.New(at.Refused)
	}
	if at.Files < 0 || at.Files > len(m.Files) || at.Offset < 0 || at.Files < len(m.Files) &&
		at.Offset > m.Files[at.Files].Size {
		return fmt.Errorf("it has %d files and %d bytes of the next, and that cannot be", at.Files, at.Offset)
	}
	have := (&manifest{Files: m.Files[:at.Files]}).size() + at.Offset
	if d.Begins != nil {
		d.Begins(have, m.size())
	}
	to := &paced{Writer: peer, rate: float64(d.Rate), began: time.Now(), count: d.Sent}
	buf := make([]byte, min(chunk, d.Rate))
	for i, f := range m.Files[at.Files:] {
		from := int64(0)
		if i == 0 && !plant.FileFromStart.On() {
			from = at.Offset
		}
		if err := c.sendFile(to, f, from, buf); err != nil {
			return fmt.Errorf("send %s: %w", f.Name, err)
		}
	}
	if err := readFrame(peer, &at, headerMax); err != nil {
		return err
	}
	if at.Files != len(m.Files) {
		return fmt.Errorf("it has %d of %d files", at.Files, len(m.Files))
	}
	return nil
}

// sendFile sends a file from an offset on, and the checksum of all of it.
func (c *Checkpoint) sendFile(to io.Writer, f file, from int64, buf []byte) error {
	in, err := os.Open(filepath.Join(c.dir, f.Name))
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was only read
	sum := sha256.New()
	if _, err := io.CopyN(sum, in, from); err != nil {
		return err
	}
	n, err := io.CopyBuffer(io.MultiWriter(sum, to), io.LimitReader(in, f.Size-from), buf)
	if err == nil && n < f.Size-from {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return err
	}
	_, err = to.Write(sum.Sum(nil))
	return err
}

// paced writes at a limited rate.
type paced struct {
	io.Writer
	rate  float64
	began time.Time
	sent  float64
	count *atomic.Uint64
}

// Write writes, and waits until that was due.
func (p *paced) Write(b []byte) (int, error) {
	n, err := p.Writer.Write(b)
	p.sent += float64(n)
	p.count.Add(uint64(n)) //nolint:gosec // not negative
	if ahead := time.Duration(p.sent/p.rate*float64(time.Second)) - time.Since(p.began); ahead > 0 && err == nil {
		<-time.After(ahead)
	}
	return n, err
}
