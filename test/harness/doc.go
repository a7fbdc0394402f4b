// Package harness runs the real binary as a process of its own and talks to it
// over a real socket, for the black-box tests and for the benchmark.
//
// It knows the server only from outside: its flags, what it prints, its signals
// and exit status, what the kernel tells about it, and the Masenko wire protocol,
// of which Client speaks what the tests need. It imports nothing of the server,
// so that no mistake can be on both sides.
package harness
