package operator

import (
	"context"
	"errors"
	"time"

	"millrace/internal/api"
)

// Cluster is the part of this server in a cluster.
type Cluster interface {
	// Status tells about all nodes, as far as this one knows.
	Status() api.ClusterStatus
	// Ready returns why this node can have no client served, or nil.
	Ready() error
	// Transfer begins to give the leadership to another node. That cuts off everybody who is connected. It returns
	// ErrNotLeading, as the two below do, if this node has ceased to lead meanwhile.
	Transfer() error
	// Join makes a node a member that runs at an address. Its data is sent to it, and from then on it counts.
	Join(name, addr string) error
	// Remove takes a node out. It returns ErrNoNode if there is none of that name.
	Remove(name string) error
}

// ErrNoNode means that the cluster has no node of a name.
var ErrNoNode = errors.New("not found")

// ErrNotLeading means that a change of the cluster was asked of a node that does not lead any more. Asked again, the
// node passes it on.
var ErrNotLeading = errors.New("this node does not lead any more: try again")

// clusterRefusal is what who asked for a change of the cluster is told.
func clusterRefusal(err error) error {
	if errors.Is(err, ErrNotLeading) {
		return api.ProblemNoLeader.New("%s", err)
	}
	return api.ProblemConflict.New("%s", err)
}

var errNoCluster = api.NotFound("this server is not part of a cluster: cluster.node is not set")

// InCluster reports whether the server is part of a cluster.
func (s *Service) InCluster() bool { return s.opts.Cluster != nil }

// Cluster tells about the cluster.
func (s *Service) Cluster() (api.ClusterStatus, error) {
	if s.opts.Cluster == nil {
		return api.ClusterStatus{}, errNoCluster
	}
	return s.opts.Cluster.Status(), nil
}

// Transfer has another node lead in a moment. Whoever is connected is cut off then, also who has asked for it.
func (s *Service) Transfer(ctx context.Context) (api.ClusterStatus, error) {
	if s.opts.Cluster == nil {
		return api.ClusterStatus{}, errNoCluster
	}
	s.Note(ctx, 0, "ask for another leader") // before it: soon this node can keep nothing any more
	if err := s.opts.Cluster.Transfer(); err != nil {
		return api.ClusterStatus{}, clusterRefusal(err)
	}
	return s.opts.Cluster.Status(), nil
}

// Join makes a node a member of the cluster.
func (s *Service) Join(name, addr string) (api.ClusterStatus, error) {
	if s.opts.Cluster == nil {
		return api.ClusterStatus{}, errNoCluster
	}
	if name == "" || addr == "" {
		return api.ClusterStatus{}, api.Invalid("name and addr: which node is to become a member, and where " +
			"the others reach it")
	}
	if err := s.opts.Cluster.Join(name, addr); err != nil {
		return api.ClusterStatus{}, clusterRefusal(err)
	}
	return s.opts.Cluster.Status(), nil
}

// Remove takes a node out of the cluster.
func (s *Service) Remove(name string) (api.ClusterStatus, error) {
	if s.opts.Cluster == nil {
		return api.ClusterStatus{}, errNoCluster
	}
	switch err := s.opts.Cluster.Remove(name); {
	case errors.Is(err, ErrNoNode):
		return api.ClusterStatus{}, api.NotFound("the cluster has no node %s", name)
	case err != nil:
		return api.ClusterStatus{}, clusterRefusal(err)
	}
	return s.opts.Cluster.Status(), nil
}

// NewStandby returns the service of a node that does not lead: what it knows without an engine. Backup writes a copy of
// the data to a new directory.
func NewStandby(o Options, backup func(dir string) error) *Service {
	o.Now = time.Now
	return &Service{opts: o, log: o.Logger, copyData: backup}
}
