// Package server is the composition root: it binds the addresses, opens the store
// and the engine, starts the protocols of dialects.go, and stops it all again in
// order.
//
// # Starting
//
// Addresses are bound first, so that a taken port is noticed before anything is
// touched on disk; clients that connect early wait in the backlog. Nothing is
// announced before everything works.
//
// # Stopping
//
// Listeners, connections, engine, store, in that order. A drain lets connections
// finish for a bounded time; a storage failure closes them at once, because nothing
// may be acknowledged any more.
//
// The package decides nothing about jobs and parses no protocol. The command line
// calls it.
package server
