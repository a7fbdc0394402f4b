// Package pebblestore is the durable store.Store: a log and a Pebble database in one directory of the local disk.
//
// The log is the truth (package commitlog), and Pebble is the state that follows from it. A batch of changes goes to
// the log as one record, and its caller waits for that alone. Then it is gathered in memory with others. About once a
// second what was gathered is applied to Pebble as one batch, so that what comes and goes meanwhile, as most jobs do,
// costs Pebble nothing. Readers see what was gathered on top of what Pebble has.
//
// Pebble has no log of its own. Every batch that it applies carries the position: the number of the last record that is
// in it. When Pebble has flushed its memtables to tables, the position that it has on stable storage tells up to where
// the log is not needed any more.
//
// Opening means: open Pebble, read the position, gather what the log has after it. It is the same whatever ended the
// last run. Each record is applied exactly once, because the position moves with the changes or not at all: a single
// delete that meets another history than its own would bring a key back.
//
// By file: store.go commits and closes, gather.go keeps what Pebble does not have yet, apply.go gives it to Pebble,
// position.go says how far that is, read.go reads, checkpoint.go copies; open.go, marker.go, lock.go and upgrade.go
// open a directory, guard.go and events.go stop the store at the first error, watch.go notices that the files were
// taken away, sink.go and reclaim.go look after Pebble's tables, verify.go reads everything.
//
// It never looks into keys or values. The server opens one; the engine uses it as a store.Store.
//
// The words of the code: what is gathered is in the log and not yet in Pebble; a generation is a
// part of it that is applied as one batch; to move is to have Pebble apply a generation; the
// position is how far Pebble is; the fuse is what stops the store at the first error, and a guard
// is the file system that blows it; a marker is the file FORMAT, which makes a directory ours.
package pebblestore
