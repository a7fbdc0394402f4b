// Package dialecttest holds the tests that every wire protocol must pass: Run
// for hostile and careless clients, Matrix for jobs that come through one
// protocol and leave through another. Both run the real engine on a store in
// memory, inside a bubble.
//
// A protocol takes part through a Driver, listed in Drivers. Only tests import
// this package.
package dialecttest
