package job

// Verb names a kind of command, for whoever counts them.
type Verb uint8

// The verbs, one for each kind of command.
const (
	VerbPush Verb = iota
	VerbRun
	VerbAtomic
	VerbFetch
	VerbAck
	VerbFail
	VerbRelease
	VerbReturn
	VerbBury
	VerbKick
	VerbDelete
	VerbTouch
	VerbPromote
	VerbKill
	VerbRespawn
	VerbMove
	VerbAwait
	VerbCancel
	VerbEndHolder
	VerbResumeHolder
	VerbReleaseAll
	VerbConfigure
	VerbPause
	VerbResume
	VerbPurge
	VerbRemove
	VerbFlush
	VerbReport
	VerbNewBatch
	VerbOpenBatch
	VerbCommitBatch
	VerbSetValue
	VerbDropValue
	VerbSetSchedules
	VerbDropSchedule
	VerbPauseSchedule
	VerbRunSchedule
	VerbSetLimits
	VerbSetHooks
	VerbRaiseFormat
	VerbSetFair
	VerbKeepHolder

	// VerbCount is the number of verbs.
	VerbCount = int(VerbKeepHolder) + 1
)

var verbNames = [VerbCount]string{
	"push", "run", "atomic", "fetch", "ack", "fail", "release", "return", "bury", "kick", "delete",
	"touch", "promote", "kill", "respawn", "move", "await", "cancel", "end_holder", "resume_holder",
	"release_all", "configure", "pause", "resume", "purge", "remove", "flush", "report", "new_batch",
	"open_batch", "commit_batch", "set_value", "drop_value",
	"set_schedules", "drop_schedule", "pause_schedule", "run_schedule", "set_limits", "set_hooks", "raise_format",
	"set_fair", "keep_holder",
}

// String returns the verb's name.
func (v Verb) String() string { return verbNames[v] }

// VerbOf returns the verb of a command.
func VerbOf(c Command) Verb {
	switch c := c.(type) {
	case *Each:
		return VerbOf(c.Do)
	case *Push:
		return VerbPush
	case *Run:
		return VerbRun
	case *Atomic:
		return VerbAtomic
	case *Fetch:
		return VerbFetch
	case *Ack:
		return VerbAck
	case *Fail:
		return VerbFail
	case *Release:
		return VerbRelease
	case *Return:
		return VerbReturn
	case *Bury:
		return VerbBury
	case *Kick:
		return VerbKick
	case *Delete:
		return VerbDelete
	case *Touch:
		return VerbTouch
	case *Promote:
		return VerbPromote
	case *Kill:
		return VerbKill
	case *Respawn:
		return VerbRespawn
	case *Move:
		return VerbMove
	case *Await:
		return VerbAwait
	case *Cancel:
		return VerbCancel
	case *EndHolder:
		return VerbEndHolder
	case *ResumeHolder:
		return VerbResumeHolder
	case *ReleaseAll:
		return VerbReleaseAll
	case *Configure:
		return VerbConfigure
	case *Pause:
		return VerbPause
	case *Resume:
		return VerbResume
	case *Purge:
		return VerbPurge
	case *Remove:
		return VerbRemove
	case *Flush:
		return VerbFlush
	case *Report:
		return VerbReport
	case *NewBatch:
		return VerbNewBatch
	case *OpenBatch:
		return VerbOpenBatch
	case *CommitBatch:
		return VerbCommitBatch
	case *SetValue:
		return VerbSetValue
	case *DropValue:
		return VerbDropValue
	case *SetSchedules:
		return VerbSetSchedules
	case *DropSchedule:
		return VerbDropSchedule
	case *PauseSchedule:
		return VerbPauseSchedule
	case *RunSchedule:
		return VerbRunSchedule
	case *SetLimits:
		return VerbSetLimits
	case *SetHooks:
		return VerbSetHooks
	case *RaiseFormat:
		return VerbRaiseFormat
	case *SetFair:
		return VerbSetFair
	case *KeepHolder:
		return VerbKeepHolder
	}
	panic("job: a command without a verb")
}
