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
	descLogKeep   = desc("cluster_log_keep_bytes",
		"How much of the log is kept for nodes that are behind. It is cut when it is a quarter longer.")
	descVoids = desc("cluster_fenced_total",
		"Entries that were void since the start, because another term had begun. There are some when "+
			"the leader changes.")
	descChanges = desc("cluster_leader_changes_total",
		"Terms that have begun since the start, as this node knows. One that was killed counts those again that it "+
			"reads from its log.")
	descForwarded = desc("cluster_forwarded_connections",
		"Connections of clients that this node passes on to the leader.")
	descConfirm = desc("cluster_confirm_seconds",
		"How long it took that a majority confirmed this node as the leader, which reads and empty answers wait for.")
	descSnapshot = desc("cluster_snapshot_seconds",
		"How long it took to put data on stable storage before the log is cut (cut), to send all data to a node that "+
			"was too far behind (sent), and to receive it (received).", "kind")
	descCaught = desc("cluster_catchup_received_bytes",
		"How much this node has received of all data, which it is sent because it is new or too far behind.")
	descCatchUp = desc("cluster_catchup_size_bytes",
		"How much all data is that this node is sent; 0: it is sent none.")
	descSent = desc("cluster_catchup_sent_bytes_total",
		"Bytes of all data that this node has sent to others since the start.")
	descReachable = desc("cluster_node_reachable", "1 if this node reaches another one.", "node")
	descLag       = desc("cluster_lag_entries", "How many entries another node has applied less than this one.", "node")
	descLagTime   = desc("cluster_lag_seconds", "For how long it has had less.", "node")
	descDiffer    = desc("cluster_settings_differ",
		"In how many settings that all nodes should have alike another node differs from this one.", "node")
	descSkew = desc("cluster_clock_skew_seconds", "How far the clock of another node is ahead of this one's.",
		"node")
)

// send sends a sample.
type send func(d *prometheus.Desc, v float64, labels ...string)

func (c *collector) collectCluster(ch chan<- prometheus.Metric, gauge, counter send) {
	cl := c.Cluster()
	gauge(descLeads, boolean(cl.Leads))
	gauge(descHasLeader, boolean(cl.HasLeader))
	gauge(descTerm, float64(cl.Term))
	gauge(descCommit, float64(cl.Commit))
	gauge(descApplied, float64(cl.Applied))
	gauge(descLogBytes, float64(cl.LogBytes))
	gauge(descLogKeep, float64(cl.LogKeep))
	gauge(descForwarded, float64(cl.Forwarded))
	ch <- durations(descConfirm, &cl.Confirms, commandPowers)
	ch <- durations(descSnapshot, &cl.Cuts, jobPowers, "cut")
	ch <- durations(descSnapshot, &cl.Sent, jobPowers, "sent")
	ch <- durations(descSnapshot, &cl.Received, jobPowers, "received")
	gauge(descCaught, float64(cl.CatchUpReceived))
	gauge(descCatchUp, float64(cl.CatchUpSize))
	counter(descSent, float64(cl.CatchUpSent))
	counter(descVoids, float64(cl.Voids))
	counter(descChanges, float64(cl.LeaderChanges))
	reached := 1 // itself
	for _, n := range cl.Nodes {
		gauge(descLag, float64(n.Lag), n.Name)
		gauge(descLagTime, n.LagTime, n.Name)
		gauge(descSkew, n.Skew, n.Name)
		gauge(descDiffer, float64(n.Differ), n.Name)
		gauge(descReachable, boolean(n.Reachable), n.Name)
		if n.Reachable {
			reached++
		}
	}
	gauge(descMembers, float64(reached), "yes")
	gauge(descMembers, float64(len(cl.Nodes)+1-reached), "no")
}
