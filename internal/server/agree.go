package server

import (
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"millrace/internal/cluster"
	"millrace/internal/replica"
)

// differing returns the settings in which two nodes differ. A release that does not know a setting is not asked for it.
func differing(a, b map[string]string) []string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if other, ok := b[name]; ok && other != a[name] {
			list = append(list, name)
		}
	}
	return list
}

// decisive returns those of the settings that change what becomes of jobs.
func (n *node) decisive(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !n.cfg.Decisive(name) })
}

// agreement returns the digests of the settings of this node.
func (n *node) agreement() map[string]string {
	return n.settings.current.Load().Agreement()
}

// settingsDiffer tells how the settings of another node differ from those of this one; empty: they do not. The caller
// holds n.mu.
func (n *node) settingsDiffer(h *heard) string {
	if len(h.differ) == 0 {
		return ""
	}
	return "its settings differ: " + strings.Join(h.differ, ", ")
}

// noteSettings logs that the settings of another node differ, once for each change. The caller holds n.mu.
func (n *node) noteSettings(name string, h *heard, theirs map[string]string) {
	differ := differing(n.agreement(), theirs)
	if slices.Equal(differ, h.differ) {
		return
	}
	h.differ = differ
	if len(differ) == 0 {
		n.server.log.Info("another node has the same settings again", slog.String("node", name))
		return
	}
	n.server.log.Warn("another node has other settings: give all nodes the same", slog.String("node", name),
		slog.String("settings", strings.Join(differ, ", ")))
}

// yieldAgain is how long a leader whose settings differ waits before it tries again to give the leadership away. While
// it tries nobody is served.
const yieldAgain = time.Minute

// yields gives the leadership away if most of the other nodes have other settings than this one, of those that change
// what becomes of jobs: what is acknowledged should not depend on a node that was forgotten. If none of the others can
// lead instead, it stays.
func (n *node) yields() {
	if n.term.Load() == nil || time.Now().Before(n.yieldAfter) {
		return
	}
	var other []member
	var settings []string
	voters := 0
	for _, m := range n.members() {
		if m.learner {
			continue
		}
		voters++
		if m.id == n.id {
			continue
		}
		n.mu.Lock()
		if h := n.pongs[m.name]; n.reached(&m) {
			if d := n.decisive(h.differ); len(d) > 0 {
				other, settings = append(other, m), d
			}
		}
		n.mu.Unlock()
	}
	if len(other) <= voters/2 {
		return
	}
	n.server.log.Warn("most nodes have other settings than this one, which may not lead then: giving "+
		"the leadership away",
		slog.String("settings", strings.Join(settings, ", ")), slog.String("to", other[0].name))
	if err := n.log.TransferTo(other[0].id, other[0].addr); err != nil {
		n.yieldAfter = time.Now().Add(yieldAgain)
		n.server.log.Warn("the leadership could not be given away: trying again later", slog.Any("error", err),
			slog.Duration("after", yieldAgain))
	}
}

// roomy is a term whose free space is that of a majority of the nodes.
type roomy struct {
	*replica.Term
	n *node
}

// FreeBytes returns how much space this node has, or less if a majority has not as much: what is acknowledged must find
// room on that.
func (r roomy) FreeBytes() (uint64, error) {
	own, err := r.Term.FreeBytes()
	if err != nil {
		return own, err
	}
	return min(own, r.n.roomOfMajority(own)), nil
}

// roomOfMajority returns how much space a majority of the nodes has at least. Of a node that has not said anything
// nothing is believed to be wrong.
func (n *node) roomOfMajority(own uint64) uint64 {
	members := n.members()
	n.mu.Lock()
	defer n.mu.Unlock()
	var rooms []uint64
	for _, m := range members {
		switch h, ok := n.pongs[m.name]; {
		case m.learner:
		case m.id == n.id:
			rooms = append(rooms, own)
		case ok && h.pong.Free != nil:
			rooms = append(rooms, *h.pong.Free)
		default:
			rooms = append(rooms, math.MaxUint64)
		}
	}
	if len(rooms) == 0 {
		return own
	}
	slices.Sort(rooms)
	return rooms[len(rooms)-1-len(rooms)/2]
}

// room tells other nodes how much space this one has; nil: it does not know.
func (n *node) room() *uint64 {
	if n.opts.freeBytes != nil {
		return n.opts.freeBytes()
	}
	if s := n.store.Load(); s != nil {
		if free, err := s.FreeBytes(); err == nil {
			return &free
		}
	}
	return nil
}

// roomFor tells why this node has no room for the data of another one; nil: it has, or does not know.
func (n *node) roomFor(bytes int64) error {
	free, floor := n.room(), n.cfg.Store.FreeFloor
	if bytes <= 0 || free == nil || *free >= floor && *free-floor >= uint64(bytes) {
		return nil
	}
	return fmt.Errorf("node %s has too little disk space for the data of the cluster: %.1f MiB are to "+
		"come, and %.1f MiB "+
		"are free, of which store.free_floor keeps %.1f MiB. Make room on its disk: the leader tries again by itself",
		n.cfg.Cluster.Node, mib(uint64(bytes)), mib(*free), mib(floor))
}

func mib(bytes uint64) float64 { return float64(bytes) / (1 << 20) }

func joinAbout(texts ...string) string {
	texts = slices.DeleteFunc(texts, func(t string) bool { return t == "" })
	return strings.Join(texts, "; ")
}

func roomAbout(free *uint64, floor uint64) string {
	if free == nil || floor == 0 || *free >= floor {
		return ""
	}
	return fmt.Sprintf("it has too little disk space: %d bytes are free", *free)
}

// receivesAbout tells how much a node has of all data that it is sent, or why it does not take that.
func receivesAbout(p *cluster.Pong) string {
	if p.Receives == 0 || p.NoRoom != "" {
		return p.NoRoom
	}
	return fmt.Sprintf("it is sent all data, and has %d %% of %.1f MiB", p.Received*100/p.Receives,
		float64(p.Receives)/(1<<20))
}
