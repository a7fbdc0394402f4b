// Package cli is the command line of millrace, one file per command. It turns
// flags, environment and file into a configuration, sets up logging, hands over
// to the server package and turns the outcome into an exit status. Commands that
// concern a running server ask it over its operator API.
//
// It is the only package that prints. It knows no protocol and decides nothing about
// jobs; cmd/millrace calls it.
package cli
