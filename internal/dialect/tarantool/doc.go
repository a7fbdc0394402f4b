// Package tarantool speaks the protocols of Tarantool with its queue module:
// IPROTO, which every connector of Tarantool 1.6 and later speaks, and on a port
// of its own the binary protocol of Tarantool 1.5. Behind them are two sets of
// procedures on the same queues: today's (tubes with a type, integer task ids) and
// the legacy one (space and tube, string ids).
//
// There is no Lua and no database here. Calls of queue procedures are recognised
// by name and become engine commands; schema requests are answered as an empty
// database would. The dialect decides nothing about jobs. It keeps the types of
// tubes, which it reads from the settings of queues, and who belongs to which queue
// session; both follow from the engine and from who is connected.
//
// This package describes the protocol, makes it, and leads packets to procedures:
//
//	settings.go, dialect.go                    Spec, options, New
//	iproto.go, auth.go, watch.go, eval.go      the requests of IPROTO
//	box15.go                                   those of Tarantool 1.5
//	procedure.go, commands.go                  which set a call is for, and what it counts as
//
// What it is made of, none of which knows this package:
//
//	iproto, box15   packets and values: bytes only
//	lua             the pieces of Lua that clients send
//	proc            connections and calls; on the packets
//	queue, legacy   the two sets of procedures; on proc, not on each other
//
// No mutex is held together with another. That of the queue sessions is held while requests are
// submitted, never while one is waited for.
//
// docs/protocols/tarantool.md lists the procedures, limits, error texts and
// deliberate deviations.
package tarantool
