// Package testkit holds what tests of several packages need: an in-memory
// network that works inside a testing/synctest bubble, the passing of bubble
// time, transcripts of wire sessions, and a check for leaked goroutines. Only
// tests and test support packages import it.
package testkit
