package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"millrace/internal/store"
)

// flushDelayDeleteRange bounds how long a deleted range keeps its space. Shorter
// would cut the log into many small pieces when queues are cleared one by one.
const flushDelayDeleteRange = 5 * time.Second

// logger passes Pebble's log on, and turns its demands to end the process into a
// blown fuse.
type logger struct {
	log  *slog.Logger
	fuse *fuse
}

func (l logger) Infof(format string, args ...any) { l.print(slog.LevelDebug, format, args) }

func (l logger) Errorf(format string, args ...any) { l.print(slog.LevelWarn, format, args) }

// Fatalf does not return, as Pebble expects.
func (l logger) Fatalf(format string, args ...any) {
	err := fmt.Errorf("storage engine: %s", fmt.Sprintf(format, args...))
	for _, arg := range args {
		if cause, ok := arg.(error); ok {
			err = fmt.Errorf("storage engine: %w", cause)
			break
		}
	}
	l.fuse.end(err)
}

func (l logger) print(level slog.Level, format string, args []any) {
	// Behind a blown fuse Pebble stumbles over files that were never written,
	// again and again; the first error has said what there is to say.
	if l.fuse.err() != nil || !l.log.Enabled(context.Background(), level) {
		return
	}
	l.log.LogAttrs(context.Background(), level, "pebble", slog.String("text", fmt.Sprintf(format, args...)))
}

// events counts what Pebble's metrics leave out, and blows the fuse for errors that
// Pebble meets in the background, which it would otherwise retry without end.
type events struct {
	fuse             *fuse
	stalls           atomic.Uint64
	stallNanos       atomic.Int64
	stallBegan       time.Time // belongs to the listener, which is called with a lock of Pebble's held
	backgroundErrors atomic.Uint64
	corruptions      atomic.Uint64
	sinker           *sinker
}

// listener returns what Pebble is to call. It is called with locks of Pebble's held: nothing here
// may wait for Pebble or call it.
func (e *events) listener(g *gathered) *pebble.EventListener {
	return &pebble.EventListener{
		BackgroundError: func(err error) {
			e.backgroundErrors.Add(1)
			e.fuse.blow(fmt.Errorf("storage engine, in the background: %w", withCorrupt(err)))
		},
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			e.corruptions.Add(1)
			err := fmt.Errorf("read %s: %w: %w", info.Path, store.ErrCorrupt, info.Details)
			e.fuse.blow(&store.AdviceError{Err: err, Advice: restoreBackup})
		},
		FlushEnd: func(info pebble.FlushInfo) {
			if info.Err == nil {
				e.sinker.flushed(info.Output)
				signal(g.flushed)
			}
		},
		WriteStallBegin: func(pebble.WriteStallBeginInfo) {
			e.stalls.Add(1)
			e.stallBegan = time.Now()
		},
		WriteStallEnd: func() {
			e.stallNanos.Add(int64(time.Since(e.stallBegan)))
		},
	}
}

// withCorrupt adds ErrCorrupt to errors that Pebble marks as corruption.
func withCorrupt(err error) error {
	if pebble.IsCorruptionError(err) && !errors.Is(err, store.ErrCorrupt) {
		return fmt.Errorf("%w: %w", store.ErrCorrupt, err)
	}
	return err
}
