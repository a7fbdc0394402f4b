package job

// State is where a job stands. Every state of every queue is an ordered list.
type State uint8

// The states. Done and Failed are finished; in all others the job is alive.
const (
	Scheduled State = iota + 1 // waits for its time
	Blocked                    // waits for other jobs
	Ready                      // may be fetched
	Leased                     // in a worker's hands
	Retrying                   // failed, waits for its back-off
	Buried                     // set aside by a worker until kicked
	Done                       // succeeded, its result is kept until expiry
	Failed                     // exhausted, its result is kept until expiry
	Dead                       // exhausted, kept for people to look at

	// StateCount is one more than the largest State, for arrays by state.
	StateCount = int(Dead) + 1
)

var stateNames = [StateCount]string{
	Scheduled: "scheduled", Blocked: "blocked", Ready: "ready", Leased: "leased", Retrying: "retrying",
	Buried: "buried", Done: "done", Failed: "failed", Dead: "dead",
}

// String returns the state's name in lower case.
func (s State) String() string {
	if int(s) < StateCount && stateNames[s] != "" {
		return stateNames[s]
	}
	return "unknown"
}

// Name returns what operators call the state. A leased job runs, as far as they are concerned.
func (s State) Name() string {
	if s == Leased {
		return "running"
	}
	return s.String()
}

// ParseState is the inverse of String and of Name.
func ParseState(name string) (State, bool) {
	if name == Leased.Name() {
		return Leased, true
	}
	for s, n := range stateNames {
		if n != "" && n == name {
			return State(s), true
		}
	}
	return 0, false
}

// Finished reports whether the job has run its course.
func (s State) Finished() bool { return s == Done || s == Failed }

// States is a set of states. The empty set stands for all of them.
type States uint16

// StatesOf returns the set of the states given.
func StatesOf(states ...State) States {
	var set States
	for _, s := range states {
		set |= 1 << s
	}
	return set
}

// Allow reports whether s is in the set.
func (set States) Allow(s State) bool { return set == 0 || set&(1<<s) != 0 }

// BodyKind says what the bytes of a body are, so that a protocol can show a
// body that another one pushed.
type BodyKind uint8

// The kinds of body.
const (
	BodyNone    BodyKind = iota // there is no body, which differs from an empty one
	BodyBytes                   // opaque bytes
	BodyJSON                    // one JSON value
	BodyArgs                    // a JSON array of arguments
	BodyMsgpack                 // MessagePack values, one after the other
)
