// Package engine hosts the machine. It makes the semantics durable and fast, and every listener of the server calls it.
//
// # The path of a command
//
// A caller submits a Request with one or more commands. The caller's own goroutine takes the engine's lock and applies
// the commands to the machine, so that a command costs no hand-over between goroutines. The changes gather in the open
// batch. The caller is answered when the batch with its changes is committed.
//
// A second goroutine commits. While one batch is written and synced, the next one fills: this is group commit, and it
// adds no delay of its own. When there is hardly any traffic the caller commits its batch itself, which saves the
// hand-over. How many batches may be on their way at once is a property of the log (Depth).
//
// A third goroutine is the clock. It wakes when a timer is due or when the machine has left work over, and calls Tick.
//
// What the machine reads back consults the open batch first, then the sealed batches, then the store.
//
// # What an answer promises
//
// In the mode fsync an answer leaves after its changes are on stable storage, and so does every answer that depends on
// the changes of another caller (INV-11). In a cluster an answer needs a proof as well that this node led after the
// command was applied (proof.go).
//
// Nothing blocks while the lock is held except for reads of the store. Callers are answered after the lock was
// released. At the first error of the store the engine stops: nothing is acknowledged any more, and Failed is closed.
//
// # Files
//
//	request.go   what callers submit and how they wait
//	engine.go    the engine and its options
//	apply.go     from a request to the machine and back
//	clock.go     what is due, and the end after an error of the store
//	commit.go    when a batch is committed, and who is answered then
//	proof.go     who may be answered in a cluster
//	delivery.go  which deliveries have reached their connection
//	space.go     refuses pushes while the disk is nearly full
//	filter.go    tells that a key is new without asking the store
//	core.go      machine, pending batches and store, without any goroutine; the simulation drives this
//	gaps.go      ranges of the store that are known to be empty, which scans leave out
//	waits.go     bounds how many callers wait and what they hold; queues.go: how many queues there are
//	standby.go   the filter of keys that a standby keeps for the time when it leads
//	stepped.go   the engine without goroutines, for the simulation of a cluster
//	query*.go    reads: on the caller's goroutine, of committed data only
//	meter*.go    what is measured; types.go: the types of jobs that are measured apart
//	sums.go      totals over queues, which the machine keeps
package engine
