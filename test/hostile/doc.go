// Package hostile tests that clients which do not behave harm nobody but themselves.
//
// On every listener of the built binary at once it does what no client should do:
// sends byte by byte, never reads, hangs up half way, connects ten thousand times a
// second, announces giant lengths, pipelines a hundred thousand commands, nests
// without end, sends random bytes. Meanwhile well-behaved clients of several protocols
// work on and are measured: they are served all the time, nearly as fast as before.
// Afterwards the server's connections, goroutines and memory are back where they were,
// and its log has not been flooded.
//
// The default takes under a minute, and a p99 of up to -hostile.floor passes, since a busy
// machine says little. make hostile makes each attack longer and several times, demands
// that the medians keep the limit, and writes them into docs/lab/reliability.md.
//
// TestBystanders is about commands that are well formed and concern much that was stored before: each trial
// stores it, has clients of all protocols work on queues of their own, and sends the one command. The longest
// call of those clients tells whether the server does its work in steps. The short form takes about two minutes on
// two busy processors; make bystander does it at full size.
// A new trial is an entry in one of the lists of bystander_*_test.go.
package hostile
