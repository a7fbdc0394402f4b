// Package raftlog is the replicated log of a cluster, on github.com/hashicorp/raft. A Node keeps the log, gives what is committed to a
// replica.Replica, and delivers a replica.Term each time this node becomes the leader. Consensus is all the library's; what is here is
// the store of its log (logStore, on Pebble), its snapshots, which are checkpoints of the store of the replica, and the terms.
package raftlog
