// Package faults spoils what a server stands on, and looks what becomes of its jobs: bits
// of its files, the ends of them, the answers of the file system, the space on it, the
// power, the clock.
//
// What must come out is always the same: everything that was acknowledged is there, or
// the damage is told; nothing else is ever read. The engine and the store are the real ones, on a
// file system in memory where that is what is spoilt. Each suite has a bounded form, which
// go test runs, and a long one by its flags: see main_test.go.
package faults
