// Package rest speaks the protocol of workers and producers over the operator's HTTP API: push, fetch, ack, fail,
// extend and release, as JSON.
//
// It has no listener of its own. The operator's side mounts its calls under the paths of the API and looks after
// logins, the size of requests and web pages of other sites, as for its own calls. What a call asks of a job is one
// command of the engine, as in every dialect.
//
// Between requests it holds nothing but the names of the latest workers; names.mu is a leaf.
//
// docs/protocols/rest.md lists the calls, limits and problems.
package rest
