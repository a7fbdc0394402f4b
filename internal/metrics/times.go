package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/timing"
)

// Internal is the protocol of what no client has asked for.
const Internal = "internal"

// Command is what was counted of one command of a wire protocol.
type Command struct {
	Protocol, Command string
	OK, Errors        uint64
	Times             timing.Histogram
}

var (
	descWait = desc("job_wait_seconds", "How long jobs were ready before they were fetched, by the protocol "+
		"that fetched them.",
		"namespace", "queue", "type", "protocol")
	descRun = desc("job_run_seconds", "How long jobs that were acked or failed by a worker had been held, by the "+
		"protocol that fetched them.",
		"namespace", "queue", "type", "protocol")

	descCommandsTotal = desc("commands_total",
		"Commands of clients, as their protocols call them, by how they were "+
			"answered.", "protocol", "command", "result")
	descCommandTime = desc("command_seconds",
		"How long commands of clients took from when they were read until they were answered. What waits for a job, "+
			"a result or room takes as long as it waits.",
		"protocol", "command")

	descVerbsTotal = desc("engine_commands_total",
		"What protocols, operators and the server itself have asked of the engine, by how it ended.",
		"protocol", "verb", "result")
	descVerbTime = desc("engine_command_seconds",
		"How long the engine took from applying a command until it was committed. Commands that had to wait for a "+
			"job, a result or room are not in it.",
		"protocol", "verb")

	descCommitTime = desc("store_commit_seconds",
		"How long batches took to be committed, with the sync if there is one.")
	descCommitBatch = desc("store_commit_batch_jobs", "Commands that were committed together.")
)

// commands tells what was asked for, by clients and of the engine, and how it was committed.
func (c *collector) commands(ch chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, n uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	if c.Commands != nil {
		list := c.Commands()
		for i := range list {
			f := &list[i]
			counter(descCommandsTotal, f.OK, f.Protocol, f.Command, "ok")
			counter(descCommandsTotal, f.Errors, f.Protocol, f.Command, "error")
			if f.Times.Count > 0 {
				ch <- durations(descCommandTime, &f.Times, commandPowers, f.Protocol, f.Command)
			}
		}
	}
	for _, f := range c.Engine.Commands() {
		protocol, verb := c.protocol(f.Door), f.Verb.String()
		for o := range engine.Outcome(engine.OutcomeCount) {
			counter(descVerbsTotal, f.Outcomes[o], protocol, verb, o.String())
		}
		ch <- durations(descVerbTime, &f.Times, commandPowers, protocol, verb)
	}
	commits := c.Engine.CommitFigures()
	ch <- durations(descCommitTime, &commits.Times, commandPowers)
	ch <- sizes(descCommitBatch, &commits.Commands, batchPowers)
}

// protocol names a door.
func (c *collector) protocol(d job.Door) string {
	if d == 0 || c.DoorName == nil {
		return Internal
	}
	return c.DoorName(d)
}
