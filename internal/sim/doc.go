// Package sim checks the machine by simulation: seeded random commands of every
// kind go to the real core and to a naive model of docs/semantics.md, with time
// passing, commits delayed and crashes in between, and the two must agree on
// every answer and on the whole state.
//
// The model is written from the document alone and shares no code with the machine but the vocabulary of package job
// and what package schedule says of clocks. It favours clarity over speed: maps, linear scans and sorting, no index of
// any kind. Where chance decides (a random queue, a jitter) or the document leaves an order open (callbacks of several
// batches) it asks an Oracle what the machine chose, refuses a choice that the document does not allow, and follows it
// otherwise.
//
// Only tests import this package.
package sim
