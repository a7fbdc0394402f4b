// Package migrate brings what the original servers hold into a running Millrace server: jobs in every state, pauses,
// tokens. A Source reads one kind of server; Run sends what it reads to the operator API, which takes each job once.
//
// Nothing is changed at the source, except by Follow, which works its jobs off as a worker would: a job is
// acknowledged there only when it is durable here.
package migrate
