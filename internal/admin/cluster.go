package admin

import (
	"context"
	"errors"
	"net/http"
	"time"

	"millrace/internal/api"
	"millrace/internal/auth"
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

const pathCluster = api.PathAPI + "/cluster"

// clusterRoutes are the calls about the cluster.
var clusterRoutes = []route{
	{http.MethodGet, pathCluster, auth.RoleRead, nil, (*call).getCluster},
	{http.MethodPost, pathCluster + "/transfer", auth.RoleOperator, nil, (*call).transferLeadership},
	{http.MethodPost, pathCluster + "/members", auth.RoleOperator, nil, (*call).joinCluster},
	{http.MethodDelete, pathCluster + "/members/{node}", auth.RoleOperator, nil, (*call).leaveCluster},
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
		return api.ClusterStatus{}, api.Invalid("name and addr: which node is to become a member, and where the others reach it")
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

func (c *call) joinCluster() error {
	var in api.ClusterMember
	if err := c.Decode(&in); err != nil {
		return err
	}
	st, err := c.Join(in.Name, in.Addr)
	if err != nil {
		return err
	}
	c.Note(c.R.Context(), 0, "make node %s at %s a member of the cluster", in.Name, in.Addr)
	return c.Answer(http.StatusAccepted, st)
}

func (c *call) leaveCluster() error {
	st, err := c.Remove(c.Name("node"))
	if err != nil {
		return err
	}
	c.Note(c.R.Context(), 0, "remove node %s from the cluster", c.Name("node"))
	return c.Answer(http.StatusOK, st)
}

func (c *call) getCluster() error { return c.Result(c.Cluster()) }

func (c *call) transferLeadership() error {
	st, err := c.Transfer(c.R.Context())
	if err != nil {
		return err
	}
	return c.Answer(http.StatusAccepted, st)
}

// StandbyOptions are what a node serves that does not lead.
type StandbyOptions struct {
	Cluster Cluster
	Login   *auth.Login
	Site    *auth.Site
	Metrics http.Handler
	// Backup writes a copy of the data of this node to a new directory.
	Backup func(dir string) error
	// Leader serves all that only the leader can.
	Leader http.Handler
}

// Standby returns what a node serves that does not lead: it answers itself whether it is there, and what it knows about
// the cluster.
func Standby(o Options, so StandbyOptions) http.Handler {
	s := &Service{opts: o, log: o.Logger}
	s.opts.Cluster, s.opts.Now, s.copyData = so.Cluster, time.Now, so.Backup
	mux := http.NewServeMux()
	for _, rt := range standbyRoutes() {
		mux.HandleFunc(rt.method+" "+rt.path, func(w http.ResponseWriter, r *http.Request) { s.serve(&rt, rt.handling(), so.Login, w, r) })
	}
	if so.Metrics != nil {
		mux.Handle("GET /metrics", Guard(so.Login, auth.RoleRead, so.Metrics))
	}
	var h http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := mux.Handler(r); pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		so.Leader.ServeHTTP(w, r)
	})
	return underPrefix(ofSite(so.Site, h))
}

// standbyRoutes are the routes that need no leader: every node has the data, so that it can make a backup of it. The
// transfer does need one: only the leader can give its part away.
func standbyRoutes() []route {
	var list []route
	for _, rt := range routes {
		if rt.role == auth.RoleNone || rt.path == pathCluster || rt.path == pathBackups {
			list = append(list, rt)
		}
	}
	return list
}

// LostLeader answers a request of which only the leader knows whether it was done.
func LostLeader(w http.ResponseWriter, about string) {
	api.WriteProblem(w, api.ProblemNoLeader.New("%s", about))
}

// NoLeader answers a request that only the leader could do. Nothing was done, so it may be sent again.
func NoLeader(w http.ResponseWriter, about string) {
	w.Header().Set("Retry-After", "1")
	api.WriteProblem(w, api.ProblemNoLeader.New("%s", about))
}
