package api

import (
	"maps"
	"slices"
	"time"

	"millrace/internal/job"
)

// Action is something that can be done to a job.
type Action string

// The actions.
const (
	ActionRetry  Action = "retry"  // a failed job is ready now
	ActionRun    Action = "run"    // a scheduled job is ready now
	ActionKill   Action = "kill"   // to the dead jobs
	ActionCancel Action = "cancel" // an unfinished job is gone
	ActionDelete Action = "delete" // a job is gone, whatever its state
	ActionMove   Action = "move"   // to another queue
	ActionBury   Action = "bury"   // set aside
	ActionKick   Action = "kick"   // a buried job is ready again
	// ActionRespawn makes a dead or failed job ready as if it were new.
	ActionRespawn Action = "respawn"
)

// With is what some actions need besides the jobs.
type With struct {
	To       string `json:"to,omitempty"`       // the queue to move to
	Attempts uint32 `json:"attempts,omitempty"` // that a respawned job has from now on; without it as many as it had
}

// alive are the states of jobs that have not come to an end.
var alive = job.StatesOf(job.Scheduled, job.Blocked, job.Ready, job.Leased, job.Retrying, job.Buried)

// everyState is the set that allows every state by naming it.
var everyState = alive | job.StatesOf(job.Done, job.Failed, job.Dead)

// actionStates are the states that each action applies to.
var actionStates = map[Action]job.States{
	ActionRetry:   job.StatesOf(job.Retrying, job.Failed, job.Dead),
	ActionRun:     job.StatesOf(job.Scheduled),
	ActionKill:    alive,
	ActionCancel:  alive,
	ActionDelete:  everyState,
	ActionMove:    everyState &^ job.StatesOf(job.Leased),
	ActionBury:    alive &^ job.StatesOf(job.Buried),
	ActionKick:    job.StatesOf(job.Buried),
	ActionRespawn: job.StatesOf(job.Failed, job.Dead),
}

// Actions returns the names of all actions, in order.
func Actions() []Action { return slices.Sorted(maps.Keys(actionStates)) }

// States returns the states that the action applies to: none, if there is no such action.
func (a Action) States() job.States { return actionStates[a] }

// Applies reports whether an action can be done to a job in a state.
func (a Action) Applies(state string) bool {
	s, ok := job.ParseState(state)
	return ok && a.States() != 0 && a.States().Allow(s)
}

// Target is a job that is acted on, and the state in which the operator has seen it: in
// any other nothing is done.
type Target struct {
	Namespace string `json:"namespace"`
	Queue     string `json:"queue,omitempty"` // may be left out where it is not known
	ID        job.ID `json:"id"`
	// The state in which it was seen: in any other nothing is done. Without it every state to which the action applies
	// will do.
	State string `json:"state,omitempty" api:"is=State"`
}

// ActRequest does something to a job.
type ActRequest struct {
	Action Action `json:"action"`
	With
	Queue string `json:"queue,omitempty"` // of the job; it may be left out where it is not known
	// The state in which it was seen: in any other nothing is done. Without it every state to which the action applies
	// will do.
	State string `json:"state,omitempty" api:"is=State"`
}

// ActAllRequest does the same to several jobs.
type ActAllRequest struct {
	Action Action `json:"action"`
	With
	Jobs []Target `json:"jobs" api:"minItems=1 maxItems=1000"`
}

// BulkRequest begins a bulk action.
type BulkRequest struct {
	Action Action `json:"action"`
	With
	Filter Filter `json:"filter,omitzero"` // without one: all jobs
}

// Outcome is what became of one of several jobs.
type Outcome struct {
	Namespace string   `json:"namespace"`
	ID        job.ID   `json:"id"`
	Done      bool     `json:"done"`
	Problem   *Problem `json:"problem,omitempty"`
}

// Outcomes are what became of several jobs, in the order of the request.
type Outcomes struct {
	Jobs []Outcome `json:"jobs"`
}

// BulkState is how far a bulk action is.
type BulkState string

// The states of a bulk action.
const (
	BulkWaiting   BulkState = "waiting" // another one runs
	BulkRunning   BulkState = "running"
	BulkDone      BulkState = "done"
	BulkCancelled BulkState = "cancelled"
	BulkFailed    BulkState = "failed"
)

// Bulk is an action on all jobs that fit a filter. It concerns the jobs that are in a state to which
// the action applies when it begins, as far as they still are when their turn comes.
type Bulk struct {
	ID     string `json:"id"`
	Action Action `json:"action"`
	With
	Filter   Filter     `json:"filter"`
	State    BulkState  `json:"state"`
	Created  time.Time  `json:"created"`
	Ended    *time.Time `json:"ended,omitempty"`
	Examined uint64     `json:"examined"` // jobs looked at so far
	Total    uint64     `json:"total"`    // jobs to look at
	Done     uint64     `json:"done"`     // jobs that it was done to
	Refused  uint64     `json:"refused"`  // jobs that moved on just before
	Problem  string     `json:"problem,omitempty"`
}

// BulkPage is a part of the list of bulk actions.
type BulkPage struct {
	Bulk []Bulk `json:"bulk"`
	Next string `json:"next,omitempty"`
}
