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
	Job      NewJob `json:"job" api:"optional"`
	// What becomes of runs that were missed while the server was down; left out it is once.
	Missed string `json:"missed,omitempty" api:"enum=once|skip|all"`
	// With all: how many of them; left out it is 100.
	MissedLimit uint32 `json:"missed_limit,omitempty" api:"maximum=1000"`
	// Whether it runs while the job of the last run is unfinished; left out it does.
	Overlap string `json:"overlap,omitempty" api:"enum=allow|skip"`
	Paused  bool   `json:"paused,omitempty"` // whether it begins so
}

// MissedLimitDefault is how many missed runs are made up for if an entry does not say.
const MissedLimitDefault = 100

// Cron is what is known about an entry.
type Cron struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	NewCron
	Origin      string     `json:"origin" api:"enum=api|file"` // who sets the entry; what a file sets is changed there
	Created     *time.Time `json:"created,omitempty"`
	Next        *time.Time `json:"next,omitempty"`
	LastTick    *time.Time `json:"last_tick,omitempty"` // the last that had a job
	LastRun     *time.Time `json:"last_run,omitempty"`  // when that was pushed
	LastResult  string     `json:"last_result,omitempty" api:"enum=unfinished|succeeded|died|removed"`
	Fired       uint64     `json:"fired"`
	MissedCount uint64     `json:"missed_count"`      // runs without a job: the server was down
	Skipped     uint64     `json:"skipped"`           // runs without a job: an overlap, or the push was refused
	Running     job.ID     `json:"running,omitempty"` // the job of the last run, if it is unfinished
	Runs        []CronRun  `json:"runs,omitempty"`    // the newest first
}

// CronRun is a run of an entry, or several that had no job for the same reason.
type CronRun struct {
	Tick    *time.Time `json:"tick"` // the first of them
	At      *time.Time `json:"at"`   // when the last was dealt with
	Kind    string     `json:"kind" api:"enum=fired|manual|missed|overlapped|refused"`
	Count   uint64     `json:"count"` // how many runs: those without a job, one after the other for the same reason, are told as one
	Job     job.ID     `json:"job,omitempty"`
	Result  string     `json:"result,omitempty" api:"enum=unfinished|succeeded|died|removed"` // of the job
	Ended   *time.Time `json:"ended,omitempty"`
	Refused string     `json:"refused,omitempty"` // the problem that the push met
}

// Crons is the list of entries.
type Crons struct {
	Cron []Cron `json:"cron"`
}

// NextRuns are when an entry is due next.
type NextRuns struct {
	Next []time.Time `json:"next"`
}
