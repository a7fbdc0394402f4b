package raftlog

import (
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// newLogger passes on the library's own log: what it calls information is of interest to those who look for a fault
// only.
func newLogger(log *slog.Logger) hclog.Logger {
	return hclog.FromStandardLogger(slog.NewLogLogger(log.With(slog.String("component", "raft")).Handler(),
		slog.LevelDebug), &hclog.LoggerOptions{Level: hclog.Info})
}
