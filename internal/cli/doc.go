// Package cli is the command line of millrace, one file per command. It turns
// flags, environment and file into a configuration, sets up logging, hands over
// to the server package and turns the outcome into an exit status.
//
// It is the only package that prints. It knows nothing about jobs or protocols;
// cmd/millrace calls it.
package cli
