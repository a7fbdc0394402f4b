// Package machine holds the semantics: what each command does to jobs.
//
// It is a pure state machine. It starts no goroutine, takes no lock, does no I/O, reads no clock and draws no
// randomness. The time and a random number come in with each step. Reads and changes go through the Storage that the
// machine is given. The engine owns the machine and applies one step at a time; the simulation does the same.
// docs/semantics.md states every rule and every invariant (INV-1 and following). Code that upholds an invariant names
// it, and the files check*.go assert them all.
//
// # A step
//
// A step is one call of Apply (a command), Continue (the rest of a long fetch) or Tick (what is due). Each step
// has a number. Its changes go to the open batch of the engine, and the number tells the engine which batch an answer
// has to wait for (INV-11). The order of effects within a step is always the same:
//
//  1. The time is set. It never goes back.
//  2. Timers that are due fire, the earliest first. They come before the command, so that a command never sees a
//     lease that has expired or a job that should be ready by now.
//  3. The command changes jobs: see "Transitions".
//  4. Hooks of jobs that have died push their jobs.
//  5. Batches that have reached a stage push their callbacks.
//  6. Pushes that waited for room are let in.
//  7. Waiting fetches are served: see "Wakes".
//
// Each of the last four may cause more of the others. serveWakes begins again with the first of them until nothing is
// left, or until the work of the step is used up. New jobs come only when the command itself is over: it may have been
// checked against the jobs that there were.
//
// No step does unbounded work. Options.StepWork bounds what a step may do beyond what its command names. The rest stays
// in a list (endings, orphans, sweeps, waiting callers), and Tick continues with it between other commands. What is
// left over is stored if a crash must not lose it.
//
// # Transitions
//
// A job is in exactly one state, and an entry is its form in memory. Every transition goes the same way: leave takes
// the job out of the list of its old state, the fields change, and enter puts it into the list of its new state, sets
// its timer and saves the record. Queue counters follow from leave and enter alone.
//
//	push      -> ready, scheduled or blocked
//	fetch     ready -> running (Leased in the code), with a lease and its holder
//	ack       running -> done: removed, or kept with its result for a while
//	fail      running -> retrying, buried or dead, as its policy says (exhaust.go)
//	time      scheduled or retrying -> ready; running -> what its policy says when a lease expires
//	the end of a job releases the jobs that are blocked by it, and counts for its batch
//
// # Wakes
//
// Nothing polls. Whatever may make a job fetchable calls wake on its queue: a new job, a freed group, a slot or token
// of a limit, a queue that is resumed. At the end of the transition serveWakes gives jobs to the waiting callers of
// these queues, first come first served (INV-5). Their answers leave through Completed. A waiting caller is in the
// lists of all queues that it named, and leaves them all with its answer.
//
// # Memory
//
// In memory are all queues (some hundred bytes each), the head of each ready list, running jobs up to a bound, the
// timers of the next seconds, some thousand keys, and the waiting callers. All of it except for the waiting callers and
// the deliveries on their way can be rebuilt from the store at any time (INV-12).
//
// # Files
//
//	machine.go    the machine and its steps          storage.go   the seam to the store
//	queue.go      queues and their counters          job.go       entries: load, save, enter, leave, remove
//	window.go     the part of a list in memory       ready.go     ready lists and their order
//	group.go      one running job per group          limit.go     limits; parked.go: callers a limit keeps waiting
//	timer.go      timers                             schedule.go  schedules and their ticks
//	wait.go       waiting callers and their lists    serve.go     which caller gets which job
//	delivery.go   leases on their way to a worker    restart.go   what a restart does to leases and runs
//	keep.go       holders that outlive a restart
//	keys.go       keys; key_cache.go: those in memory
//	batch.go      batches and their callbacks        depend.go    jobs that wait for others
//	lock.go       locks                              forget.go    records that lapse by themselves
//	hook.go       jobs that are pushed when a job    turn.go      fair queues: whose turn it is
//	              dies                               regroup.go   rates of groups; groups after a change of rules
//	alike.go      jobs with the same fingerprint     past.go      jobs and batches from other servers
//	sums.go       totals of a namespace              activity.go  which queues have changed
//	observe.go    what is counted, for metrics       trace.go     what is traced
//
// The other files hold one family of verbs each: push, fetch, settle, exhaust, result, holder, admin, purge, flush,
// value.
//
// # Bounds
//
// A step is bounded whatever was stored before (section 13 of the semantics). Each of these budgets
// bounds one kind of work:
//
//	Machine.workBudget       waiting callers that are answered or let in, and expired jobs that a fetch ends; per step
//	Machine.dependantBudget  dependants that are released or failed; per transition
//	Machine.leaseBudget      leases and waits that end with a holder or a restart; per transition
//	TimersPerCommand         timers before a command; TimersPerStep: those of a Tick
//	NamesPerStep             queues that a fetch looks at
//	SweepStep                records that the clean-up after a purge, or the forgetting, looks at
//	limitToStep              jobs that Kick, Respawn, ReleaseAll and Purge change
//	lookMax                  entries that are looked at to find some that count
//
// New work that may grow with what is stored needs one of them, and a place where the rest is kept.
//
// # Crashes
//
// A step is one part of one atomic batch, so that a crash leaves all of it or nothing. What several
// steps do must be safe between any two of them. Endings, sweeps, flushes and regrouping are
// therefore stored, and move on in the batch that has what they did. Orphaned leases, cancelled
// waits and slots that are to be counted are in memory only: a restart begins with the leases that
// there are and finds the same. The answer to a command never depends on memory that a restart
// would rebuild differently (INV-12).
//
// # Keys and buffers
//
// The scratch buffers keyBuf, valueBuf, readBuf and forgetBuf belong to the function that is running: every call of
// another method may overwrite them. Few functions rely on a key that a callee has left in keyBuf, and
// each of them says so. Storage copies what it is given. Bodies are shared between an entry and the
// answers that were made from it, so that nothing writes into a body. Most keys are written once
// and deleted once, by Insert and Remove. A key that may be written twice uses Set and Delete: a
// Remove of such a key would bring its first value back.
//
// # Words
//
// Beside those of docs/glossary.md the code uses these:
//
//	entry      a job in memory                          window    the first part of a list, in memory
//	stay       the time of a job in one state           firsts    the first ready jobs of groups, one for each
//	held       a group that may not have another lease  turn      the place of a group in a fair queue
//	ending     what is to be done for the dependants    orphan    a lease whose holder has gone
//	           of a job that has ended                  sweep     the clean-up after a purge
//	due batch  a batch that may have reached a stage    notice    the job that a hook is to push
//	tombstone  the place of a deleted dead job          ticker    a schedule as it was read
//	room       space for a push in a full queue         slot      what a lease uses of the limits of its queue
//	parked     a caller whose worker has as many jobs   resident  an entry that is shared through Machine.jobs
//	           as it may have
package machine
