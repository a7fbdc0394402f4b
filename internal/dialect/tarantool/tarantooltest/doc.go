// Package tarantooltest holds small clients of the Tarantool protocols for tests: of
// the protocols, of the cross-protocol matrix and of the whole server. MessagePack is
// written in a text notation, so that tests can be read:
//
//	nil true false 5 -3 1.5 "text" bin"\xff" [1, 2] {"key": "value"}
//
// Client speaks IPROTO, Box15 the protocol of Tarantool 1.5, and Interpret lets a
// transcript speak IPROTO in words. They are for tests that send or read packets as such: those that only push, fetch
// and settle use internal/wire.
package tarantooltest
