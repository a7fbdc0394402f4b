// Package commitlog is the contract of the log that everything durable goes through: an ordered, numbered, checksummed
// sequence of records. What a record holds is not its business; today it is one batch of changes.
//
// The log is the truth. Whoever keeps state that follows from it, such as package pebblestore, keeps the number of the
// last record that the state has, together with the state. After a crash it reads the log from there on and applies
// each record once. When the state is on stable storage up to a number, the log is trimmed up to there.
//
// When a record is safe is a property of the log alone: its Mode, and how many records it takes before the first of
// them is safe, its Depth. Two packages implement it. Filelog keeps segments of one directory on a disk. Memlog keeps
// memory, for the simulation. Package logtest has the tests that both pass.
package commitlog
