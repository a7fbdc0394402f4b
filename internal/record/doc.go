// Package record turns jobs, queues and the shard's counters into keys and
// values and back. It owns the storage format (docs/storage-format.md) and
// nothing else: no rule about jobs, no I/O. The machine writes through it, the
// engine's readers read through it.
//
// To change a record: raise its version byte, keep decoding the old one, add a
// golden file of the old form to testdata, describe both in
// docs/storage-format.md, and only then write the new one.
package record
