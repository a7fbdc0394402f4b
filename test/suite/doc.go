// Package suite is what the suites that run the real binary share: it is built once for
// a package of tests and started for the length of one, and it goes through several lives
// under the eyes of clients that live longer.
//
// It asserts nothing about the server but that it comes up and goes down as asked, and is
// imported by tests only.
package suite
