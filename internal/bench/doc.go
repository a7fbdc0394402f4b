// Package bench puts load on a job server and measures it over its wire. It owns a server of each protocol that does
// nothing, the numbering of jobs by which loss and duplicates are found, and the arithmetic of latencies.
//
// It shares no code with the server, and neither do the clients of internal/wire, which it uses. It prints nothing; the
// command line and test/bench call it.
package bench
