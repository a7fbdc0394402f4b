// Package docs runs every shell example of README.md, CONTRIBUTING.md and docs
// against a server of its own, so that what a reader pastes works. It has no code of
// its own and nothing imports it.
//
// What it understands of a document:
//
//	```sh            commands; each must succeed. All blocks of a document run in one
//	                 shell, one after the other, so that variables stay
//	```text          as the next block after one of sh: what that prints
//	```console       commands behind "$ " and below each what it prints
//	```sh server     the command that starts the server for the rest of the document;
//	                 without such a block "millrace" is started
//	```sh norun      commands that cannot be run here; norun_test.go lists every one
//	                 of them with the reason
//	```ruby file=work.rb
//	                 a program, written to that file for the commands that follow;
//	                 the same for go, js, python and php
//	<!-- setup ... --> commands that the reader does not see, run where they stand
//
// Output is compared up to ids, times and lengths; "..." stands for the rest of a
// line, and on a line of its own for any lines. Documents name the default ports and
// the usual places (/var/lib/millrace, /etc/millrace, /backup); the tests put the
// ports of the document's own server and directories of the test in their place, in
// the commands and back in what they print. Blocks that have no "server" run in an
// empty directory, those of a document that has one in the root of the repository.
// REPO is the root of the repository. curl fails on an HTTP error, which is an error of the example.
package docs
