package metrics

import "github.com/prometheus/client_golang/prometheus"

var (
	descLeads     = desc("cluster_is_leader", "1 if this node leads.")
	descHasLeader = desc("cluster_has_leader", "1 if this node knows a leader that it can reach.")
	descTerm      = desc("cluster_term", "The term that has begun last.")
	descMembers   = desc("cluster_members", "Nodes of the cluster, by whether this one reaches them.", "reachable")
	descCommit    = desc("cluster_commit_index", "The last entry of the log that a majority has.")
	descApplied   = desc("cluster_applied_index", "The last entry of the log that this node has applied.")
	descLogBytes  = desc("cluster_log_bytes", "How long the log is.")
	descVoids     = desc("cluster_fenced_total", "Entries that were void since the start, because another term had begun. There are some when the leader changes.")
	descChanges   = desc("cluster_leader_changes_total", "Terms that have begun since the start, as this node knows.")
	descLag       = desc("cluster_lag_entries", "How many entries another node has applied less than this one.", "node")
	descLagTime   = desc("cluster_lag_seconds", "For how long it has had less.", "node")
	descSkew      = desc("cluster_clock_skew_seconds", "How far the clock of another node is ahead of this one's.", "node")
)

// send sends a sample.
type send func(d *prometheus.Desc, v float64, labels ...string)

func (c *collector) collectCluster(gauge, counter send) {
	cl := c.Cluster()
	gauge(descLeads, boolean(cl.Leads))
	gauge(descHasLeader, boolean(cl.HasLeader))
	gauge(descTerm, float64(cl.Term))
	gauge(descCommit, float64(cl.Commit))
	gauge(descApplied, float64(cl.Applied))
	gauge(descLogBytes, float64(cl.LogBytes))
	counter(descVoids, float64(cl.Voids))
	counter(descChanges, float64(cl.LeaderChanges))
	reached := 1 // itself
	for _, n := range cl.Nodes {
		gauge(descLag, float64(n.Lag), n.Name)
		gauge(descLagTime, n.LagTime, n.Name)
		gauge(descSkew, n.Skew, n.Name)
		if n.Reachable {
			reached++
		}
	}
	gauge(descMembers, float64(reached), "yes")
	gauge(descMembers, float64(len(cl.Nodes)+1-reached), "no")
}
