// Package demo drives a server like the clients of a small shop, so that there is something to look at: five queues,
// workers of four protocols, failures, a batch, schedules and limits.
//
// Everything goes over the wire, and nothing is made up: the past hour is lived through in a moment, with a clock that
// lags behind and catches up second by second. What pages and history show is what the server has counted.
package demo
