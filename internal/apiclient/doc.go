// Package apiclient asks a running server over its operator API. It is what the commands of the command
// line use that concern a server which is at work.
//
// It knows addresses, credentials and the forms of requests and answers, which are those of package api. It
// prints nothing and decides nothing: a refusal of the server comes back as an *api.Problem, and an *Unreachable
// tells that there was no answer.
package apiclient
