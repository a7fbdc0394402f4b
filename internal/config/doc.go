// Package config owns the settings of the server: one typed table of keys, from
// which the flags, the environment variables, the TOML file, the example file,
// the JSON schema and the reference are all derived.
//
// A key has one name in every form: masenko.addr in the file is
// MILLRACE_MASENKO_ADDR in the environment and --masenko-addr on the command
// line. A flag wins over the environment, the environment over the file, the
// file over the default, and each value remembers where it came from. A name
// that the table does not have is an error, never ignored.
//
// The keys of a protocol stand in its own package, as a Spec (see settings.go of
// masenko); the server lists the protocols and makes a Table of them.
//
// The package reads the file it is told to and the environment it is handed. It
// opens no socket, logs nothing and knows no other package of the server; the
// command line calls it.
package config
