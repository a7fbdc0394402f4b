// Package engine is the host of the machine: it makes the semantics durable and
// fast, and it is what every edge of the server calls.
//
// A command is applied on the goroutine of its caller, under the engine's lock, so that it
// costs no hand-over; a goroutine of the engine applies what time brings. The changes
// gather in an open batch. Another goroutine commits, or, when there is hardly any other traffic, the
// caller itself: while one fsync runs the next batch fills, and a
// caller is answered when the batch with its changes is committed (group commit
// without any delay of its own). What the machine reads back meanwhile consults the
// open and the sealed batch before the store.
//
//	request.go   what callers submit and how they wait
//	engine.go    the engine, its options and what callers may ask of it
//	apply.go     from a request to the machine and back
//	clock.go     what time brings, and the end after a storage failure
//	commit.go    when a batch is committed, and who is answered then
//	space.go     refusing pushes while the disk is nearly full
//	core.go      machine + pending batches + store without any goroutine; the
//	             simulation drives this
//	query.go     reads, on the caller's goroutine, of committed data only
//
// Nothing blocks while the lock is held but reads of the store; callers are told after
// it has been given up.
package engine
