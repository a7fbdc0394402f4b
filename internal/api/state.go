package api

import "millrace/internal/job"

// StateNames are the names of all states, in their order.
func StateNames() []string {
	names := make([]string, 0, job.StateCount)
	for s := job.Scheduled; int(s) < job.StateCount; s++ {
		names = append(names, s.Name())
	}
	return names
}

// ShownStates are the same, those that people look for most first.
func ShownStates() []string {
	return []string{
		job.Ready.Name(), job.Leased.Name(), job.Scheduled.Name(), job.Retrying.Name(), job.Blocked.Name(),
		job.Buried.Name(), job.Dead.Name(), job.Failed.Name(), job.Done.Name(),
	}
}
