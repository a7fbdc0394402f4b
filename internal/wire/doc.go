// Package wire speaks every protocol as a client does: one small client for each, which the load generator, the demo
// and all tests share. A client is synchronous and has push, fetch, ack and fail in common with the others; what only
// one protocol has is said with its raw call.
//
// It shares no code with the server: a mistake in a parser must not hide itself. It costs as little as it can, because
// it may share the processor with a server that is measured.
package wire
