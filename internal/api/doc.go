// Package api is the operator API as both of its sides see it: its JSON, its problems, and what a job to push means to
// the engine. It holds no state and opens nothing. Clients import it for the types. What serves the calls, the
// operator's side and the protocol of workers, shares the reading of requests and the writing of answers.
package api
