// Package proc runs calls of procedures: it reads packets from connections, gives each call to its procedure, hands the
// commands of many calls to the engine together, and answers in the shape that the caller expects. It knows neither the
// procedures nor how packets look like; those are given to it.
//
//	host.go            what connections have in common, and what a wire protocol is
//	conn.go, unit.go   the loop of a connection; commands that are submitted together, and calls that wait
//	delivery.go        tasks on their way to the client
//	call.go, errors.go what a procedure is given
//	reply.go, body.go  what it answers
package proc
