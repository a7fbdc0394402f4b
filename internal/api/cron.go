package api

import (
	"time"

	"millrace/internal/job"
)

// NewCron is an entry to set: when it pushes which job.
type NewCron struct {
	// Five fields, six with seconds first, a name such as @hourly, or @every 90s.
	Schedule string `json:"schedule"`
	TimeZone string `json:"time_zone,omitempty"` // of the tz database; UTC if it is not given
	Queue    string `json:"queue"`
	Job      NewJob `json:"job"`
	// Missed says what becomes of runs that were missed while the server was down: once (if it is not given), skip, or
	// all up to MissedLimit.
	Missed      string `json:"missed,omitempty"`
	MissedLimit uint32 `json:"missed_limit,omitempty"`
	// Allow (if it is not given), or skip while the job of the last run is unfinished.
	Overlap string `json:"overlap,omitempty"`
	Paused  bool   `json:"paused,omitempty"` // whether it begins so
}

// MissedLimitDefault is how many missed runs are made up for if an entry does not say.
const MissedLimitDefault = 100

// Cron is what is known about an entry.
type Cron struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	NewCron
	Origin      string     `json:"origin"` // file or api
	Created     *time.Time `json:"created,omitempty"`
	Next        *time.Time `json:"next,omitempty"`
	LastTick    *time.Time `json:"last_tick,omitempty"` // the last that had a job
	LastRun     *time.Time `json:"last_run,omitempty"`  // when that was pushed
	LastResult  string     `json:"last_result,omitempty"`
	Fired       uint64     `json:"fired"`
	MissedCount uint64     `json:"missed_count"` // runs without a job: the server was down
	Skipped     uint64     `json:"skipped"`      // runs without a job: an overlap, or the push was refused
	Running     job.ID     `json:"running,omitempty"`
	Runs        []CronRun  `json:"runs,omitempty"` // the newest first
}

// CronRun is a run of an entry, or several that had no job for the same reason.
type CronRun struct {
	Tick    *time.Time `json:"tick"` // the first of them
	At      *time.Time `json:"at"`   // when the last was dealt with
	Kind    string     `json:"kind"` // fired, manual, missed, overlapped or refused
	Count   uint64     `json:"count"`
	Job     job.ID     `json:"job,omitempty"`
	Result  string     `json:"result,omitempty"` // of the job: unfinished, succeeded, died or removed
	Ended   *time.Time `json:"ended,omitempty"`
	Refused string     `json:"refused,omitempty"`
}

// Crons is the list of entries.
type Crons struct {
	Cron []Cron `json:"cron"`
}

// NextRuns are when an entry is due next.
type NextRuns struct {
	Next []time.Time `json:"next"`
}
