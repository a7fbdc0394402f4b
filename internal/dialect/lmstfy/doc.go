// Package lmstfy speaks the LMSTFY protocol: jobs over plain HTTP/1.1 with JSON
// answers, on a public listener, and an admin interface for tokens, limits and
// metrics on another.
//
// It parses requests, maps them onto engine commands and renders the answers. What
// a time to run, the last try or a time to live does to a job is the engine's: this
// package only fills in the policy. Besides tokens, limits and counters, which are
// read from the engine once and kept there, it holds nothing between requests.
//
// A request is an exchange, which is pooled with its commands and buffers. One that
// waits for a job costs the goroutines that net/http gives its connection and
// nothing else: it waits in the engine, and the end of its connection ends the wait.
//
// Mutexes: registry.mu orders changes of tokens and limits and is held while they are
// stored; limiter.mu, table.mu, idSource.mu, gate.mu and sizes.mu are leaves, and none is
// held while another is taken.
//
// docs/protocols/lmstfy.md lists the calls, limits, error texts and deliberate
// deviations.
package lmstfy
