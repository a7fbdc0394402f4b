package cluster

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Another checkpoint begins at its beginning, and what was there of the first is gone. Of an earlier leader none is
// taken.
func TestReceiveAnother(t *testing.T) {
	t.Parallel()
	x := newTransfer(t, 1000, 5000)
	if err := x.send(3, 4000, -1); err == nil {
		t.Fatal("the connection did not end")
	}
	if err := x.send(2, -1, -1); err == nil || !strings.Contains(err.Error(), "another node leads") {
		t.Errorf("an earlier leader: %v", err)
	}
	if err := x.receiver.Count("a/1"); err == nil {
		t.Error("a part of a checkpoint counts")
	}
	first := x.files
	x.files = &Checkpoint{dir: first.dir, manifest: manifest{Checkpoint: "b/1", Files: first.Files[1:]}}
	if err := x.send(4, -1, -1); err != nil {
		t.Fatal(err)
	}
	if err := x.receiver.Count("a/1"); err == nil {
		t.Error("a checkpoint counts that was replaced")
	}
	if _, err := os.Stat(x.receiver.path("000000.sst")); err == nil {
		t.Error("a file of the first checkpoint is left")
	}
	if !strings.Contains(x.log.String(), "beginning again") {
		t.Errorf("the log does not tell: %s", x.log.String())
	}
	if err := x.receiver.Count("b/1"); err != nil {
		t.Error(err)
	}
	// What somebody counts on stays until it is where it belongs.
	if err := x.send(5, -1, -1); err == nil || !strings.Contains(err.Error(), "takes over") {
		t.Errorf("it is replaced: %v", err)
	}
	if err := os.Rename(x.to, x.to+".taken"); err != nil {
		t.Fatal(err)
	}
	x.receiver.Taken()
	x.files = first
	if err := x.send(5, -1, -1); err != nil {
		t.Fatal(err)
	}
	x.arrived()
}

// A node that cannot write what it is sent says so, which ends it. That a connection ends is nothing of the kind.
func TestReceiveCannotWrite(t *testing.T) {
	t.Parallel()
	x := newTransfer(t, 1000, 5000)
	if err := x.send(3, 4000, -1); err == nil || x.fatal != nil {
		t.Fatalf("the connection ends: %v, and of files: %v", err, x.fatal)
	}
	if err := os.RemoveAll(x.to); err != nil {
		t.Fatal(err)
	}
	if err := x.send(3, -1, -1); err == nil || x.fatal == nil {
		t.Errorf("its directory is gone: %v, and of files: %v", err, x.fatal)
	}
}

// A node that has no room for what is missing takes nothing. It tells why, in the log once. What it has stays, and when
// there is room the rest is sent.
func TestReceiveNoRoom(t *testing.T) {
	t.Parallel()
	x := newTransfer(t, 1000, 5000)
	if err := x.send(3, 2000, -1); err == nil || x.receiver.NoRoom() != nil {
		t.Fatalf("the connection ends: %v, and of room: %v", err, x.receiver.NoRoom())
	}
	have, size := x.receiver.Progress()
	const why = "are to come, and 100 are free"
	x.free = 100
	for range 3 {
		before := x.sent.Load()
		if err := x.send(3, -1, -1); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("without room the sender is told %v", err)
		}
		if err := x.receiver.NoRoom(); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("without room the receiver tells %v", err)
		}
		if got, of := x.receiver.Progress(); x.sent.Load() != before || got != have || of != size || x.fatal != nil {
			t.Errorf("without room %d bytes were sent: %d of %d, and of files: %v",
				x.sent.Load()-before, got, of, x.fatal)
		}
	}
	if n := strings.Count(x.log.String(), why); n != 1 {
		t.Errorf("the log tells it %d times: %s", n, x.log.String())
	}
	x.free = size - have
	if err := x.send(3, -1, -1); err != nil || x.receiver.NoRoom() != nil {
		t.Fatalf("there is room for what is missing: %v, %v", err, x.receiver.NoRoom())
	}
	x.arrived()
}

// What a node has told about its room is forgotten when nobody wants to send it anything any more.
func TestReceiveNoRoomEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := newTransfer(t, 1000)
		x.free = 1
		if err := x.send(3, -1, -1); err == nil || x.receiver.NoRoom() == nil {
			t.Fatalf("it was sent: %v, %v", err, x.receiver.NoRoom())
		}
		<-time.After(noRoomFor + 1)
		if err := x.receiver.NoRoom(); err != nil {
			t.Errorf("it still tells %v", err)
		}
	})
}

// Who leads next takes the place of a connection that stands still.
func TestReceiveTakesPlace(t *testing.T) {
	t.Parallel()
	x := newTransfer(t, 1000)
	here, there := net.Pipe()
	taken := make(chan struct{})
	go func() {
		defer close(taken)
		x.receiver.Take(there)
	}()
	m := x.files.manifest
	m.Term = 3
	var at position
	if err := writeFrame(here, m); err != nil {
		t.Fatal(err)
	}
	if err := readFrame(here, &at, headerMax); err != nil {
		t.Fatal(err)
	}
	if err := x.send(4, -1, -1); err != nil {
		t.Error(err)
	}
	<-taken
	x.arrived()
}

// A part of a checkpoint that nobody continues is removed, in the process that received it and in the next.
func TestReceiveExpires(t *testing.T) {
	t.Parallel()
	for _, restarts := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			x := newTransfer(t, 1000)
			if err := x.send(3, 500, -1); err == nil {
				t.Fatal("the connection did not end")
			}
			if restarts {
				x.restart()
			}
			if have, size := x.receiver.Progress(); have != 500 || size != 1000 {
				t.Errorf("%d of %d bytes", have, size)
			}
			synctest.Wait()
			<-time.After(keepPart)
			synctest.Wait()
			if _, err := os.Stat(x.to); err == nil {
				t.Error("it is still there")
			}
			if have, size := x.receiver.Progress(); have != 0 || size != 0 {
				t.Errorf("%d of %d bytes", have, size)
			}
		})
	}
}

// Names that would be files elsewhere are refused, and so is a manifest that was not written as a whole.
func TestReceiveManifest(t *testing.T) {
	t.Parallel()
	x := newTransfer(t, 10)
	for _, files := range [][]file{
		nil,
		{{"../x", 1}},
		{{"/x", 1}},
		{{"x/y", 1}},
		{{"", 1}},
		{{"x", -1}},
		{{"x", 1}, {"x", 1}},
		{{ReceivedMark, 1}},
		{{receivingMark, 1}},
		{{"x", 1 << 50}, {"y", 1 << 50}},
	} {
		if err := (&manifest{Checkpoint: "a", Files: files}).check(); err == nil {
			t.Errorf("%v is taken", files)
		}
	}
	if err := os.Mkdir(x.to, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(x.to, receivingMark), []byte(`{"checkp`), 0o600); err != nil {
		t.Fatal(err)
	}
	x.restart()
	if err := x.send(3, -1, -1); err != nil {
		t.Fatal(err)
	}
	x.arrived()
}

// What a crash has left of files is not taken for more than it is: one that is too short is sent again, and so is a
// part that is longer than its file.
func TestReceiveWrongSizes(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(x *transfer) error{
		"a file is too short": func(x *transfer) error { return os.Truncate(x.receiver.path("000000.sst"), 10) },
		"a part is too long": func(x *transfer) error {
			return os.WriteFile(x.receiver.path("000001.sst"+partSuffix), make([]byte, 6000), 0o600)
		},
	} {
		x := newTransfer(t, 1000, 5000)
		if err := x.send(3, 3000, -1); err == nil {
			t.Fatal("the connection did not end")
		}
		if err := spoil(x); err != nil {
			t.Fatal(err)
		}
		x.restart()
		if err := x.send(3, -1, -1); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		x.arrived()
	}
}

// A checkpoint that is being taken over stays, however long that takes.
func TestReceiveCountsOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := newTransfer(t, 1000)
		if err := x.send(3, -1, -1); err != nil {
			t.Fatal(err)
		}
		if err := x.receiver.Count("a/1"); err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * keepPart)
		synctest.Wait()
		if _, err := os.Stat(x.receiver.path("000000.sst")); err != nil {
			t.Error(err)
		}
	})
}
