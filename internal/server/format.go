package server

import (
	"context"
	"fmt"
	"log/slog"

	"millrace/internal/cluster"
	"millrace/internal/dialect"
	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/operator"
	"millrace/internal/record"
)

// Releases know different formats of records (record.Format). The leader writes nothing of a format before every
// member, learners too, has told that it knows it, so that each of them can take over. From then on the format is part
// of the data, and never goes back: a release that does not know it does not start with the data, and a node that runs
// one is not taken in.

// knows returns the newest format that this node knows.
func (n *node) knows() uint64 {
	if n.opts.format > 0 {
		return n.opts.format
	}
	return record.Format
}

// formatOf returns the newest format that another node knows.
func formatOf(p *cluster.Pong) uint64 { return max(p.Format, record.FormatBase) }

// agreed returns the newest format that all members know; 0: not all of them can be asked.
func (n *node) agreed() uint64 {
	format := n.knows()
	members := n.members()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, m := range members {
		switch {
		case m.id == n.id:
		case !m.member || !n.reached(&m):
			return 0
		default:
			h := n.pongs[m.name]
			format = min(format, formatOf(&h.pong))
		}
	}
	return format
}

// raise allows what all members know by now, if this node leads. What the files of the configuration ask for may have
// been refused until then.
func (n *node) raise() {
	l := n.term.Load()
	if l == nil || !n.raiseFor(l.served) {
		return
	}
	if err := l.served.follow(n.settings.current.Load()); err != nil {
		n.server.log.Error("rules of the configuration not taken over", slog.Any("error", err))
	}
}

// raiseFor allows what all members know, in a term. It reports whether that is more than before.
func (n *node) raiseFor(s *server) bool {
	format := n.agreed()
	if format <= s.engine.Format() {
		return false
	}
	res := s.engine.NewCallerAt(dialect.DoorAdmin).Do(context.Background(), &job.RaiseFormat{Format: format})[0]
	if res.Err != nil { // the term is over, or will be
		return false
	}
	n.server.log.Info("all nodes know a later format of records: it is used from now on", slog.Uint64("format", format))
	return true
}

// tooOld tells why a node cannot be taken in whose release does not know the format of the data; nil: it does.
func (n *node) tooOld(pong *cluster.Pong) error {
	l := n.term.Load()
	if l == nil {
		return operator.ErrNotLeading
	}
	if needs, knows := l.served.engine.Format(), formatOf(pong); knows < needs {
		return fmt.Errorf("node %s runs release %s, which knows format %d of the records, and the data has format "+
			"%d: run a later release there", pong.Node, pong.Version, knows, needs)
	}
	return nil
}

// checkFormat refuses data that this node does not know.
func (n *node) checkFormat() error { return engine.CheckFormat(n.store.Load(), n.knows()) }
