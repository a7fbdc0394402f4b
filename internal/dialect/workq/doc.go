// Package workq speaks the Workq protocol: command lines of words, some followed
// by a block of raw bytes, and one reply each.
//
// It parses commands, maps them onto engine commands and renders the answers. What
// the end of a lease, a failure or a time to live does is the engine's: this
// package only fills in the policy. It keeps no state about jobs, except where a
// client is in a walk through pages of inspect.
//
// docs/protocols/workq.md lists the commands, limits, error texts and deliberate
// deviations.
package workq
