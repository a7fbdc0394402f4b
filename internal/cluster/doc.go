// Package cluster is how the nodes of a cluster reach each other: one port (Port), on which the replicated log, pings
// and the connections of clients that came to a node which does not lead share the connections between nodes.
package cluster
