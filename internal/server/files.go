package server

import (
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"millrace/internal/dialect"
)

// How the files that the process may have open are shared out. A connection is a file to the system, too: without a
// reserve, clients that connect and say nothing would keep the store from making its next file, which ends the server.
const (
	// filesMin is the lowest limit with which the server starts.
	filesMin = 128
	// filesOwn are for everything but tables and connections: the log, TLS files, backups.
	filesOwn = 32
	// tableFilesMin and tableFilesMax bound how many files the store keeps open. The store takes no fewer.
	tableFilesMin = 74
	tableFilesMax = 1000
	// spareFilesMax bounds what is left over, for tables that are in use although the store would close them.
	spareFilesMax = 256
	// dismissedMax bounds the connections that are being told that they are too many.
	dismissedMax = 64
)

// fileShares is how the files that the process may have open are shared out. The zero fileShares has no limit.
type fileShares struct {
	limit     int // of the process
	tables    int // that the store keeps open
	conns     int // of all listeners together
	dismissed int // more of those that are being told that they are too many
}

// shareFiles shares out a limit, of which zero is none.
func shareFiles(limit uint64, listeners int) (fileShares, error) {
	const most = 1 << 30
	if limit == 0 || limit > most {
		return fileShares{}, nil
	}
	if limit < filesMin {
		return fileShares{}, fmt.Errorf("this process may have only %d files open, and needs %d at least: raise the "+
			"limit (ulimit -n, or LimitNOFILE= in a systemd unit)",
			limit, filesMin)
	}
	f := fileShares{limit: int(limit)}
	f.tables = min(max(f.limit/4, tableFilesMin), tableFilesMax)
	// A listener takes one file, and one more for the connection that it is about to refuse.
	left := f.limit - f.tables - filesOwn - 2*listeners - min(f.limit/16, spareFilesMax)
	f.dismissed = min(max(left/8, 0), dismissedMax)
	f.conns = max(left-f.dismissed, 1)
	return f, nil
}

// seats counts the connections of all listeners together.
type seats struct {
	max  int64 // zero is no limit
	open atomic.Int64
	told atomic.Int64 // when the operator was last told, in seconds since 1970

	mu        sync.Mutex // guards what follows
	most      int        // how many may be in dismissed
	dismissed map[net.Conn]struct{}
	shut      bool
	telling   sync.WaitGroup // those in dismissed
}

func newSeats(f fileShares) *seats {
	return &seats{max: int64(f.conns), most: f.dismissed, dismissed: make(map[net.Conn]struct{})}
}

// take reports whether there is room for one more connection. Then leave follows.
func (s *seats) take() bool {
	if s.open.Add(1) > s.max && s.max > 0 {
		s.open.Add(-1)
		return false
	}
	return true
}

func (s *seats) leave() { s.open.Add(-1) }

// dismiss tells a connection that there are too many and closes it, on a goroutine of its own. It reports false, and
// does nothing, if too many are being told already.
func (s *seats) dismiss(nc net.Conn, text []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shut || len(s.dismissed) >= s.most {
		return false
	}
	s.dismissed[nc] = struct{}{}
	s.telling.Go(func() {
		dialect.Dismiss(nc, text)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.dismissed, nc)
	})
	return true
}

// cut closes the connections that are being told.
func (s *seats) cut() {
	s.mu.Lock()
	s.shut = true
	for nc := range s.dismissed {
		_ = nc.Close() // the peer is being cut off; there is nobody to tell
	}
	s.mu.Unlock()
	s.telling.Wait()
}

// tellSeconds is how often the operator is told the same thing at most.
const tellSeconds = 60

// tell tells the operator, once a minute at most, that connections are refused.
func (s *seats) tell(log *slog.Logger, g *gate) {
	now, last := time.Now().Unix(), s.told.Load()
	if now-last < tellSeconds || !s.told.CompareAndSwap(last, now) {
		return
	}
	log.Warn("connection refused: all listeners together have as many as the limit of open files allows",
		slog.String("listener", g.config.Name()), slog.Int64("connections", s.open.Load()),
		slog.String("advice", "raise the limit (ulimit -n, or LimitNOFILE= in a systemd unit), or find out which "+
			"clients connect so often"))
}
