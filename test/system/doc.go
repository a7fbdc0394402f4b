// Package system tests the server from outside: the real binary, real sockets,
// signals, kill -9, a full disk. What it proves cannot be proved inside one
// process, above all that nothing acknowledged is lost when that process dies.
//
// The tests know the server only through package harness. A larger run than the
// default is a matter of flags: see main_test.go, make system and make scale.
package system
