// Package engine is the host of the machine: it makes the semantics durable and
// fast, and it is what every edge of the server calls.
//
// One goroutine owns the machine and applies commands as they come. Their changes
// gather in an open batch. A second goroutine commits: whenever it is free it is
// handed the open batch, so that while one fsync runs the next batch fills, and a
// caller is answered when the batch with its changes is committed (group commit
// without any delay of its own). What the machine reads back meanwhile consults the
// open and the sealed batch before the store.
//
//	request.go   what callers submit and how they wait
//	engine.go    the engine, its options and what callers may ask of it
//	loop.go      the goroutine that owns the machine
//	commit.go    when a batch is committed, and who is answered then
//	space.go     refusing pushes while the disk is nearly full
//	core.go      machine + pending batches + store without any goroutine; the
//	             simulation drives this
//	pending.go   a batch that can be read before it is committed
//	query.go     reads, on the caller's goroutine, of committed data only
//
// The inbox has its own mutex; no other lock is held together with it.
package engine
