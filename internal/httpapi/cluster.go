package httpapi

import (
	"net/http"

	"millrace/internal/api"
	"millrace/internal/auth"
	"millrace/internal/operator"
)

func (c *call) joinCluster(in *api.ClusterMember) error {
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
	Cluster operator.Cluster
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
func Standby(o operator.Options, so StandbyOptions) http.Handler {
	o.Cluster = so.Cluster
	s := operator.NewStandby(o, so.Backup)
	mux := http.NewServeMux()
	for _, rt := range mount(nil) {
		if rt.Anywhere {
			mux.HandleFunc(rt.Method+" "+rt.Path,
				func(w http.ResponseWriter, r *http.Request) { serve(s, &rt, so.Login, w, r) })
		}
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

// NoLeader answers a request that only the leader could do. Nothing was done, so it may be sent again.
func NoLeader(w http.ResponseWriter, about string) {
	w.Header().Set("Retry-After", "1")
	api.WriteProblem(w, api.ProblemNoLeader.New("%s", about))
}
