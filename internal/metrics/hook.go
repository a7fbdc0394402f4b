package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"millrace/internal/job"
)

var (
	descHookCalls = desc("hook_calls_total",
		"Calls of URLs by hooks since the start: sent were answered with success, failed are tried again. Only if "+
			"hooks.secret is set.", "result")
	descHooksWaiting = desc("hook_calls_waiting",
		"Calls that are still to be made, those that failed and are tried again included; only if hooks.secret is set.")
	descHooksDead = desc("hook_calls_dead",
		"Calls that have failed too often and are not tried again; only if hooks.secret is set.")
)

// hooks tells about the calls of hooks.
func (c *collector) hooks(ch chan<- prometheus.Metric) {
	q, _, err := c.Engine.Queue(c.HookQueue[0], c.HookQueue[1])
	if err != nil {
		ch <- prometheus.NewInvalidMetric(descHooksWaiting, err)
		return
	}
	sent, failed := c.HookCalls()
	ch <- prometheus.MustNewConstMetric(descHookCalls, prometheus.CounterValue, float64(sent), "sent")
	ch <- prometheus.MustNewConstMetric(descHookCalls, prometheus.CounterValue, float64(failed), "failed")
	waiting := q.Counts[job.Ready] + q.Counts[job.Leased] + q.Counts[job.Retrying]
	ch <- prometheus.MustNewConstMetric(descHooksWaiting, prometheus.GaugeValue, float64(waiting))
	ch <- prometheus.MustNewConstMetric(descHooksDead, prometheus.GaugeValue, float64(q.Counts[job.Dead]))
}
