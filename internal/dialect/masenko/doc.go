// Package masenko speaks the Masenko task queue protocol: one request per line,
// a verb and a JSON object, and one reply line each.
//
// It parses lines, maps them onto engine commands and renders the answers. What
// a task's failure or the loss of a connection does is the engine's: this
// package only fills in the policy. It keeps no state about tasks, except the
// 32-bit numbers under which a connection has been shown jobs that other
// protocols pushed.
//
// docs/protocols/masenko.md lists the commands, limits, error texts and
// deliberate deviations.
package masenko
