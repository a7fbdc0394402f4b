// Package machine holds the semantics: what a command does to jobs. It is a pure
// state machine. It starts no goroutine, takes no lock, does no I/O, reads no
// clock and draws no randomness: time and chance come in with each step, reads
// and changes go through the Storage it is given. The engine, its only owner,
// applies one step at a time.
//
// docs/semantics.md states every rule and the invariants INV-1 to INV-16; code
// that upholds one names it, check.go and check_batch.go assert them.
//
//	machine.go   the machine, its steps, how a command is dispatched
//	storage.go   the seam to the store, records in and out
//	queue.go     queues, their counters and their directory
//	job.go       entries: loading, saving, entering and leaving states, removal
//	window.go    the part of a list that is in memory
//	ready.go     order, ready lists, refill
//	group.go     one job in flight per group
//	timer.go     what happens at a time, delivery.go what is put off until an answer has left
//	wait.go      callers that wait, waitlist.go the lists they are in
//	serve.go     who is given what has become fetchable, in bounded steps
//	restart.go   leases and runs from before a restart, in pieces
//	sums.go      totals of a namespace, activity.go what has changed
//	batch.go     batches of jobs and their callbacks
//	keys.go      how jobs are named; key_cache.go has the keys that are in memory
//	alike.go     jobs that are about the same
//	lock.go      locks, forget.go what lapses by itself
//	progress.go  what is reported of jobs, and how they ended
//	observe.go   who is told how long jobs waited and ran
//	one file per family of verbs: push, past, fetch, settle, exhaust, depend, result,
//	holder, admin, purge, flush, value
//
// What is in memory: all queues (some hundred bytes each), the head of each ready
// list, leased jobs up to a bound, timers of the next seconds, some thousand keys, and
// who waits. All of it but the waiting callers and the deliveries on their way can be
// rebuilt from the store at any time (INV-12).
package machine
