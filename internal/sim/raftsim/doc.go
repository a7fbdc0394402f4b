// Package raftsim checks the replicated mode by simulation, over the library that it runs on: nodes of raftlog.Node and
// replica.Replica, and an engine for each term as in the server, in a testing/synctest bubble. All time is virtual, so
// that elections, heartbeats and time-outs cost none. Package clustersim does the same over a log that does whatever
// its contract allows; here it is seen whether the library, and what is between it and the engine, keep that contract.
//
// The network is in memory: it delays messages, loses some, holds them up where it is cut, one way or both, and
// delivers some when their sender has given up or is gone. The log of Raft is in a file system in memory that loses
// what was not synced when a node is killed; the store of a node then is at any of its versions since it was last
// synced. Disks are slow or hang, Raft is stopped while clients go on, leaderships are given away, nodes are far enough
// behind that they are sent all data, clocks are hours apart, and a node may lose its disk. Clients set, read and drop
// values, and push, fetch, acknowledge, delete and look for jobs, at whatever node says that it leads.
//
// What is asserted are the rules of package clustersim:
//
//   - the first node that applies an entry says what it does to the store; all others must agree,
//     leave out none, and the
//     numbers of batches and terms and the times must follow each other.
//   - what clients were told of each value and each job could have happened one thing after the other,
//     each while its caller waited. What
//     was acknowledged is there at the end, on every node. An engine answers nothing that it was asked after a later
//     term had begun. A job that was leased
//     firmly is not delivered again, and nothing is found only where there may be nothing.
//   - a log that was cut too early shows as a store that does not follow from it.
//   - ids and holders do not repeat. R-10: every command is answered once. R-11: a copy is what others have had.
//     the
//     invariants of docs/semantics.md hold at the end.
//
// When nothing goes wrong any more a node must lead, and all must come to have the same. No goroutine may be left when
// all nodes were closed.
//
// A seed decides what goes wrong and when, and what clients try. The library draws its own time-outs, and goroutines
// run in any order: a seed that has found something may need several runs to find it again. So a run that fails prints
// what has happened in it.
//
// What is not here: the port between nodes and the process around them, which internal/cluster, internal/server and
// test/torture test, and Pebble.
//
// Only tests are in this package.
package raftsim
