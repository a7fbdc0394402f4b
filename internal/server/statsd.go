package server

import (
	"context"

	"millrace/internal/job"
	"millrace/internal/metrics"
	"millrace/internal/statsd"
)

// buildStatsd makes what reports to a statsd collector, if there is one. In a cluster only the leader builds it.
func (s *server) buildStatsd() {
	if c := &s.cfg.Statsd; c.Enabled() {
		s.statsd = statsd.New(statsd.Options{
			Network: c.To.Network, Addr: c.To.Addr, Namespace: c.Namespace, Tags: c.Tags, Logger: s.log,
		})
	}
}

// reporting adds the reports to what runs until ctx ends.
func (s *server) reporting(ctx context.Context, runs []func() error) []func() error {
	if s.statsd == nil {
		return runs
	}
	return append(runs, func() error {
		s.statsd.Run(ctx, s.gauges)
		return nil
	})
}

// gauges are the figures of a report, by the names that Faktory has for them. They are those of INFO, for all protocols
// and namespaces together. A removed queue is not shown, but what it did counts.
func (s *server) gauges() ([]statsd.Gauge, error) {
	own, all, err := metrics.Queues(s.engine, s.cfg.Web.MetricsQueues)
	if err != nil {
		return nil, err
	}
	open := int64(0)
	for _, c := range s.connections() {
		open += c.Open
	}
	failed := all.Totals[job.CountFailed]
	out := []statsd.Gauge{
		{Name: "processed", Value: float64(all.Totals[job.CountAcked] + failed)},
		{Name: "failures", Value: float64(failed)},
		{Name: "scheduled", Value: float64(all.Counts[job.Scheduled])},
		{Name: "retries", Value: float64(all.Counts[job.Retrying])},
		{Name: "dead", Value: float64(all.Counts[job.Dead])},
		{Name: "working", Value: float64(all.Counts[job.Leased])},
		{Name: "enqueued", Value: float64(all.Counts[job.Ready])},
		{Name: "connections", Value: float64(open)},
	}
	for i := range own {
		q := &own[i]
		if q.Hidden {
			continue
		}
		tags := []string{statsd.Tag("queue", q.Name), statsd.Tag("namespace", q.Namespace)}
		out = append(out, statsd.Gauge{Name: "queue.size", Value: float64(q.Counts[job.Ready]), Tags: tags})
		if s.cfg.Statsd.ReportsLatency(q.Name) {
			out = append(out, statsd.Gauge{Name: "queue.latency", Value: metrics.Latency(s.engine, q), Tags: tags})
		}
	}
	return out, nil
}
