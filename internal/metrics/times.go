package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"millrace/internal/engine"
	"millrace/internal/job"
)

// Internal is the protocol of commands that no client has asked for.
const Internal = "internal"

var (
	descWait = desc("job_wait_seconds", "How long jobs were ready before they were fetched.", "namespace", "queue", "protocol")
	descRun  = desc("job_run_seconds", "How long jobs that were acked or failed by a worker had been held.", "namespace", "queue", "protocol")

	descCommandsTotal = desc("commands_total", "Commands by how they ended.", "protocol", "command", "result")
	descCommandTime   = desc("command_seconds", "How long commands took that did not have to wait.", "protocol", "command")

	descCommitTime  = desc("store_commit_seconds", "How long batches took to be committed, with the sync if there is one.")
	descCommitBatch = desc("store_commit_batch_jobs", "Commands that were committed together.")
)

// times tells how long jobs, commands and commits took.
func (c *collector) times(ch chan<- prometheus.Metric) {
	c.Engine.EachQueueTimes(func(t *engine.QueueTimes) {
		namespace, queue := label(t.Namespace), label(t.Queue)
		if t.Others {
			namespace, queue = Other, Other
		}
		protocol := c.protocol(t.Door)
		ch <- durations(descWait, &t.Wait, jobPowers, namespace, queue, protocol)
		ch <- durations(descRun, &t.Run, jobPowers, namespace, queue, protocol)
	})
	for _, f := range c.Engine.Commands() {
		protocol, command := c.protocol(f.Door), f.Verb.String()
		for o := range engine.Outcome(engine.OutcomeCount) {
			n := float64(f.Outcomes[o])
			ch <- prometheus.MustNewConstMetric(descCommandsTotal, prometheus.CounterValue, n, protocol, command, o.String())
		}
		ch <- durations(descCommandTime, &f.Times, commandPowers, protocol, command)
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
