// Package dialect holds what all wire protocols share: the Dialect interface,
// the accept loop with its limits, the connection with its buffers, the wait for
// an engine request that also notices a peer that hangs up, the pace of HTTP
// connections that pipeline, and a JSON scanner that allocates nothing.
//
// A dialect turns bytes into job.Command values and results into bytes. It must
// decide nothing about jobs: no retries, no leases, no order. It never polls and
// never waits on its own: a wait is a command with a wait, registered in the
// engine. The server package starts dialects; nothing else calls them.
//
// # One goroutine per connection
//
// The goroutine that reads a connection also writes it. While a request waits in
// the engine that goroutine sits in Read, collecting what the peer pipelines, and
// the engine's answer interrupts the Read by moving its deadline into the past.
// The one mutex of a Conn (Conn.mu) orders those deadlines: a deadline is moved
// by another goroutine only while reading is true, so the next Read is never
// poisoned by a late answer.
package dialect
