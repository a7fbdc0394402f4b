// Package tarantool speaks the protocols of Tarantool with its queue module:
// IPROTO, which every connector of Tarantool 1.6 and later speaks, and on a port
// of its own the binary protocol of Tarantool 1.5. Behind them are two sets of
// procedures on the same queues: today's (tubes with a type, integer task ids) and
// the legacy one (space and tube, string ids).
//
// There is no Lua and no database here. Calls of queue procedures are recognised
// by name and become engine commands; schema requests are answered as an empty
// database would. The package decides nothing about jobs. It keeps the types of
// tubes, which it reads from the settings of queues, and who belongs to which queue
// session; both follow from the engine and from who is connected.
//
//	dialect.go              options, New, Serve
//	conn.go                 the loop of a connection, the same for both wire protocols
//	unit.go                 commands that are submitted together, and calls that wait
//	call.go, procedure.go   what a procedure is given, and which ones there are
//	value.go, skip.go       MessagePack as it arrived
//	reply.go, errors.go     replies in the three shapes that callers expect
//	iproto.go, request.go   packets of IPROTO; auth.go, watch.go, eval.go: its larger requests
//	tube.go, method.go, put.go, task.go, session.go, stats.go   today's procedures
//	legacy*.go              the legacy procedures
//	box15*.go               the protocol of Tarantool 1.5
//
// No mutex is held together with another. Dialect.sessions.mu is held while requests are
// submitted, never while one is waited for.
//
// docs/protocols/tarantool.md lists the procedures, limits, error texts and
// deliberate deviations.
package tarantool
