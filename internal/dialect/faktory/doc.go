// Package faktory speaks the Faktory work protocol: one command per line, most with
// a JSON argument, and one RESP reply each.
//
// It parses commands, maps them onto engine commands and renders the answers. What a
// failure, the end of a reservation or the end of a batch does is the engine's: this
// package only fills in the policy. What it keeps itself are the worker processes that
// are connected, because they are about connections and not about jobs.
//
// A job is stored in parts, so that FETCH appends pieces instead of parsing: the body
// is the text of its args, key and type are jid and jobtype, and the extra is the text
// of everything else that its producer sent (extra.go).
//
// Locks: registry.mu guards the workers. A connection's own is taken inside it, never
// the other way round.
//
// docs/protocols/faktory.md lists the commands, limits, error texts and deliberate
// deviations.
package faktory
