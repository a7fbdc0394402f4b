package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"millrace/internal/job"
)

var (
	descCronFired = desc("cron_fired_total", "Jobs that a cron entry has pushed in its whole life.", "namespace",
		"name")
	descCronMissed = desc("cron_missed_total",
		"Runs of a cron entry without a job because the server was down or its clock was put forward, in its whole "+
			"life.", "namespace", "name")
	descCronSkipped = desc("cron_skipped_total",
		"Runs of a cron entry without a job because the last one was unfinished or the push was refused, in its "+
			"whole life.", "namespace", "name")
	descCronAge = desc("cron_age_seconds",
		"How long ago a cron entry has pushed its last job; none if it never has.", "namespace", "name")
	descCronLate = desc("cron_late_seconds",
		"How long a run of a cron entry has been due and not dealt with; 0 if none is.", "namespace", "name")
	descCronPaused = desc("cron_paused", "Whether a cron entry is paused.", "namespace", "name")
)

// cron tells about cron entries, in order of their names and no more than there are series for.
func (c *collector) cron(ch chan<- prometheus.Metric) {
	infos, err := c.Engine.Schedules("")
	if err != nil {
		ch <- prometheus.NewInvalidMetric(descCronFired, err)
		return
	}
	for i := range infos[:min(len(infos), c.QueuesMax)] {
		c.cronEntry(ch, &infos[i])
	}
}

func (c *collector) cronEntry(ch chan<- prometheus.Metric, s *job.ScheduleInfo) {
	tell := func(d *prometheus.Desc, kind prometheus.ValueType, v float64) {
		ch <- prometheus.MustNewConstMetric(d, kind, v, label(s.Namespace), label(s.Name))
	}
	now := c.Engine.Now()
	tell(descCronFired, prometheus.CounterValue, float64(s.Pushed))
	tell(descCronMissed, prometheus.CounterValue, float64(s.MissedAny))
	tell(descCronSkipped, prometheus.CounterValue, float64(s.Skipped))
	tell(descCronPaused, prometheus.GaugeValue, boolean(s.Stopped))
	if s.LastAt != 0 {
		tell(descCronAge, prometheus.GaugeValue, max(0, now.Sub(s.LastAt).Seconds()))
	}
	late := 0.0
	if s.Next != 0 {
		late = max(0, now.Sub(s.Next).Seconds())
	}
	tell(descCronLate, prometheus.GaugeValue, late)
}
