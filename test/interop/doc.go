// Package interop tests that all protocols are doors to one engine: over real
// sockets, against the built binary, a job is pushed through each of them, fetched,
// looked at and settled through each other one, and watched through all.
//
// The clients are those of package dialecttest, whose own matrix proves the bodies in
// memory. What is proved here is what only all protocols in one process can show:
// that each counts what the others did, that priorities, delays and times to live
// hold whoever fetches, where exhausted jobs are found, and who may settle what.
// docs/interop.md states the rules and names the test of each.
package interop
