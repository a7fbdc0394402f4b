// Package raftlog is the replicated log of a cluster, on github.com/hashicorp/raft. A Node keeps the log, gives what is
// committed to a replica.Replica, and delivers a replica.Term each time this node becomes the leader. Consensus is all
// the library's; what is here is where its log is kept (logStore, a filelog), its snapshots, which are marks as long as
// no other node needs the data, and the terms.
package raftlog
