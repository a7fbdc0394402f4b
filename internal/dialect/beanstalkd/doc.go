// Package beanstalkd speaks the beanstalkd protocol: command lines of words, some
// followed by a body of raw bytes, and one reply each.
//
// It parses commands, maps them onto engine commands and renders the answers. What
// the end of a lease or of a connection does, and the order of jobs, is the engine's:
// this package only fills in the policy. It keeps no state about jobs. What it keeps
// about tubes is who uses, watches and waits for them.
//
// docs/protocols/beanstalkd.md lists the commands, limits, error texts and deliberate
// deviations.
package beanstalkd
