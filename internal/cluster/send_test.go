package cluster

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// What is sent to another node takes as long as the rate says, whatever it is written in.
func TestPaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var to bytes.Buffer
		p := &paced{Writer: &to, rate: 1000, began: time.Now(), count: &atomic.Uint64{}}
		for _, size := range []int{1, 999, 4000} {
			if n, err := p.Write(make([]byte, size)); n != size || err != nil {
				t.Fatalf("%d of %d, %v", n, size, err)
			}
		}
		if took := time.Since(p.began); took != 5*time.Second || to.Len() != 5000 || p.count.Load() != 5000 {
			t.Errorf("%d bytes in %v", to.Len(), took)
		}
	})
}

// transfer is a checkpoint and the directory that it is to come to.
type transfer struct {
	t        *testing.T
	from, to string
	files    *Checkpoint
	receiver *Receiver
	sent     atomic.Uint64
	log      bytes.Buffer
	fatal    error // that the receiver has told
	free     int64 // bytes that the receiver has room for; 0: for everything
}

// newTransfer makes a checkpoint with files of some sizes.
func newTransfer(t *testing.T, sizes ...int) *transfer {
	t.Helper()
	x := &transfer{t: t, from: t.TempDir(), to: filepath.Join(t.TempDir(), "store.new")}
	rnd := rand.NewChaCha8([32]byte{byte(len(sizes))})
	for i, size := range sizes {
		content := make([]byte, size)
		_, _ = rnd.Read(content) // never fails
		if err := os.WriteFile(filepath.Join(x.from, fmt.Sprintf("%06d.sst", i)), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if x.files, err = OpenCheckpoint("a/1", x.from); err != nil {
		t.Fatal(err)
	}
	x.restart()
	return x
}

// restart has another process take what comes.
func (x *transfer) restart() {
	x.t.Helper()
	if x.receiver != nil {
		x.receiver.Close()
	}
	var err error
	log := slog.New(slog.NewTextHandler(&x.log, nil))
	room := func(bytes int64) error {
		if x.free > 0 && bytes > x.free {
			return fmt.Errorf("%d bytes are to come, and %d are free", bytes, x.free)
		}
		return nil
	}
	if x.receiver, err = OpenReceiver(x.to, log, room, func(err error) { x.fatal = err }); err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(x.receiver.Close)
}

// wire is a connection that ends after some bytes, or damages one.
type wire struct {
	net.Conn
	left, damages int // bytes; negative: never
}

// Write implements net.Conn.
func (w *wire) Write(p []byte) (int, error) {
	n := len(p)
	if w.damages >= 0 && w.damages < n {
		p = bytes.Clone(p)
		p[w.damages] ^= 1
	}
	w.damages -= n
	if w.left < 0 || n < w.left {
		w.left -= n
		return w.Conn.Write(p)
	}
	n, _ = w.Conn.Write(p[:w.left]) // it fails anyway
	_ = w.Close()
	return n, io.ErrClosedPipe
}

// manifestBytes is how much comes before the files.
func (x *transfer) manifestBytes(term uint64) int {
	var b bytes.Buffer
	m := x.files.manifest
	m.Term = term
	if err := writeFrame(&b, m); err != nil {
		x.t.Fatal(err)
	}
	return b.Len()
}

// send sends once. The connection ends after some bytes of the files, or damages one of them.
func (x *transfer) send(term uint64, left, damages int) error {
	x.t.Helper()
	here, there := net.Pipe()
	taken := make(chan struct{})
	go func() {
		defer close(taken)
		x.receiver.Take(there)
	}()
	defer func() {
		_ = here.Close() // the other side sees it
		<-taken
	}()
	head := x.manifestBytes(term)
	w := &wire{here, -1, -1}
	if left >= 0 {
		w.left = head + left
	}
	if damages >= 0 {
		w.damages = head + damages
	}
	return x.files.Send(x.t.Context(), w, Delivery{Term: term, Rate: 1 << 40, Sent: &x.sent})
}

// arrived checks that everything is there, and nothing else.
func (x *transfer) arrived() {
	x.t.Helper()
	if err := x.receiver.Count("a/1"); err != nil {
		x.t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(x.to, ReceivedMark)); err != nil {
		x.t.Error(err)
	}
	for _, pair := range [][2]string{{x.from, x.to}, {x.to, x.from}} {
		entries, err := os.ReadDir(pair[0])
		if err != nil {
			x.t.Fatal(err)
		}
		for _, e := range entries {
			one, err1 := os.ReadFile(filepath.Join(pair[0], e.Name()))
			other, err2 := os.ReadFile(filepath.Join(pair[1], e.Name()))
			if err := errors.Join(err1, err2); err != nil || !bytes.Equal(one, other) {
				x.t.Errorf("%s differs: %v", e.Name(), err)
			}
		}
	}
}

// However often a connection breaks, and the receiver is killed, nothing is sent twice.
func TestDeliveryResumes(t *testing.T) {
	t.Parallel()
	sizes := []int{0, 1, 70_000, 300_000, 32, 150_000, 0}
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		x := newTransfer(t, sizes...)
		size := int(x.files.size())
		cuts := 0
		for ; x.send(3, rnd.IntN(size/4), -1) != nil; cuts++ {
			if cuts > 100 {
				t.Fatal("it does not come to an end")
			}
			if rnd.IntN(2) == 0 {
				x.restart()
			}
			if have, of := x.receiver.Progress(); have > of || of != int64(size) {
				t.Fatalf("%d of %d bytes", have, of)
			}
		}
		x.arrived()
		// The checksum of a file may be cut off, and is sent again then.
		if most := size + (len(sizes)+cuts)*32; int(x.sent.Load()) > most {
			t.Errorf("%d bytes were sent of %d, with %d cuts", x.sent.Load(), size, cuts)
		}
		if cuts < 4 {
			t.Errorf("only %d cuts", cuts)
		}
	}
}

// A wrong byte is noticed wherever it is, and only its file is sent again.
func TestDeliveryDamaged(t *testing.T) {
	t.Parallel()
	for _, at := range []int{0, 999, 1031, 1032, 5000, 6000} {
		x := newTransfer(t, 1000, 5000)
		if err := x.send(3, -1, at); err == nil {
			t.Fatalf("byte %d is wrong, and nobody notices", at)
		}
		if !strings.Contains(x.log.String(), "checksum is wrong") {
			t.Errorf("byte %d: the log says %s", at, x.log.String())
		}
		if err := x.send(3, -1, -1); err != nil {
			t.Fatal(err)
		}
		x.arrived()
	}
	// So it is if the part that had come before is not what it was.
	x := newTransfer(t, 1000, 5000)
	if err := x.send(3, 3000, -1); err == nil {
		t.Fatal("the connection did not end")
	}
	part := x.receiver.path("000001.sst" + partSuffix)
	if err := os.WriteFile(part, make([]byte, 1900), 0o600); err != nil {
		t.Fatal(err)
	}
	x.restart()
	if err := x.send(3, -1, -1); err == nil {
		t.Error("a damaged part is taken")
	}
	if err := x.send(3, -1, -1); err != nil {
		t.Fatal(err)
	}
	x.arrived()
}

// A sender does not believe in a position that cannot be.
func TestDeliveryWrongPosition(t *testing.T) {
	t.Parallel()
	x := newTransfer(t, 10, 20)
	for _, at := range []position{{Files: 3}, {Files: -1}, {Files: 1, Offset: 21}, {Offset: -1}, {Refused: "no"}} {
		here, there := net.Pipe()
		go func() {
			var m manifest
			_ = errors.Join(readFrame(there, &m, manifestMax), writeFrame(there, at)) // the sender ends it
		}()
		if err := x.files.Send(t.Context(), here, Delivery{Rate: 1 << 40, Sent: &x.sent}); err == nil ||
			x.sent.Load() > 0 {
			t.Errorf("%+v: %v, %d bytes were sent", at, err, x.sent.Load())
		}
		_, _ = here.Close(), there.Close()
	}
}

// A sender that does not lead any more stops.
func TestDeliveryEnds(t *testing.T) {
	t.Parallel()
	x := newTransfer(t, 10)
	here, there := net.Pipe() // nobody answers
	defer func() { _ = there.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := x.files.Send(ctx, here, Delivery{Rate: 1 << 40, Sent: &x.sent}); err == nil {
		t.Error("it was sent")
	}
}

// A sender that is told so late that something is missing does not take it for delivered.
func TestDeliveryIncomplete(t *testing.T) {
	t.Parallel()
	x := newTransfer(t, 10, 20)
	here, there := net.Pipe()
	defer func() { _ = there.Close() }()
	go func() {
		var m manifest
		err := errors.Join(readFrame(there, &m, manifestMax), writeFrame(there, position{}))
		if err == nil {
			_, err = io.CopyN(io.Discard, there, m.size()+2*sha256.Size)
		}
		_ = errors.Join(err, writeFrame(there, position{Files: 1})) // the sender notices
	}()
	err := x.files.Send(t.Context(), here, Delivery{Rate: 1 << 40, Sent: &x.sent})
	if err == nil || !strings.Contains(err.Error(), "1 of 2 files") {
		t.Errorf("it has one file of two: %v", err)
	}
}

// What the sender is told at the beginning counts the part of a file that is there.
func TestDeliveryBegins(t *testing.T) {
	t.Parallel()
	x := newTransfer(t, 1000, 5000)
	if err := x.send(3, 1000+sha256.Size+700, -1); err == nil {
		t.Fatal("the connection did not end")
	}
	here, there := net.Pipe()
	taken := make(chan struct{})
	go func() {
		defer close(taken)
		x.receiver.Take(there)
	}()
	var began [2]int64
	err := x.files.Send(t.Context(), here, Delivery{
		Term: 3, Rate: 1 << 40, Sent: &x.sent, Begins: func(have, size int64) { began = [2]int64{have, size} },
	})
	_ = here.Close() // the other side sees it
	<-taken
	if err != nil || began != [2]int64{1700, 6000} {
		t.Errorf("it begins with %d bytes: %v", began, err)
	}
}
