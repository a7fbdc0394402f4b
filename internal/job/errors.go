package job

// Kind is the reason of an expected refusal.
type Kind uint8

// The kinds. Each dialect maps every one to its own text.
const (
	Invalid    Kind = iota + 1 // the command itself is wrong
	NotFound                   // no such job or queue
	Duplicate                  // the key is in use
	Exists                     // the queue exists already
	NotLeased                  // the job is not leased
	NotOwner                   // somebody else holds the job
	Finished                   // the job is done or failed already
	BadState                   // the verb does not apply to the state the job is in
	Full                       // the queue is at its capacity
	Busy                       // the queue has running jobs
	Waiting                    // the queue has waiting callers
	Timeout                    // the wait ended without an answer
	Canceled                   // the caller went
	TooLarge                   // beyond a configured limit
	NoSpace                    // free disk is under the floor
	Draining                   // the server is stopping
	Internal                   // the server is at fault; the log says why
	Locked                     // another job holds the lock
	ManyQueues                 // the server has as many queues as it may
	Overloaded                 // the server has as many waiting callers as it may
	Lapsing                    // a lease of the caller is about to end
)

// Error is an expected refusal.
type Error struct {
	Kind Kind
	Text string
	// Index is the position of the refused operation within an Atomic, else zero.
	Index int
}

// Error returns the text.
func (e *Error) Error() string { return e.Text }

// The refusals. Their texts are for logs and operators; dialects have their own.
var (
	ErrNotFound  = &Error{Kind: NotFound, Text: "no such job"}
	ErrNoQueue   = &Error{Kind: NotFound, Text: "no such queue"}
	ErrDuplicate = &Error{Kind: Duplicate, Text: "a job with this key exists"}
	ErrFormat    = &Error{Kind: Busy, Text: "a node of the cluster may run a release that cannot read this: try " +
		"again when all nodes run this one and can be reached"}
	ErrExists       = &Error{Kind: Exists, Text: "the queue exists already"}
	ErrNotLeased    = &Error{Kind: NotLeased, Text: "the job is not leased"}
	ErrNotOwner     = &Error{Kind: NotOwner, Text: "the job is held by somebody else"}
	ErrFinished     = &Error{Kind: Finished, Text: "the job is finished already"}
	ErrBadState     = &Error{Kind: BadState, Text: "the job is not in a state for this"}
	ErrFull         = &Error{Kind: Full, Text: "the queue is full"}
	ErrBusy         = &Error{Kind: Busy, Text: "the queue has running jobs"}
	ErrWaiting      = &Error{Kind: Waiting, Text: "the queue has waiting callers"}
	ErrTimeout      = &Error{Kind: Timeout, Text: "nothing within the time given"}
	ErrCanceled     = &Error{Kind: Canceled, Text: "the caller has gone"}
	ErrNoSpace      = &Error{Kind: NoSpace, Text: "the disk is nearly full: no new jobs until space is free"}
	ErrDraining     = &Error{Kind: Draining, Text: "the server is stopping"}
	ErrManyQueues   = &Error{Kind: ManyQueues, Text: "the server has too many queues"}
	ErrOverloaded   = &Error{Kind: Overloaded, Text: "the server has too many waiting callers"}
	ErrLocked       = &Error{Kind: Locked, Text: "another job holds the lock"}
	ErrNoBatch      = &Error{Kind: NotFound, Text: "no such batch"}
	ErrManyBlockers = &Error{Kind: Invalid, Text: "the jobs of one transaction wait for more than 16384 others"}
	ErrTooDeep      = &Error{Kind: Invalid, Text: "batches are nested too deep"}
	ErrHasValue     = &Error{Kind: Exists, Text: "the name is taken"}
	ErrKept         = &Error{Kind: Exists, Text: "the name is that of another holder, or the holder has another name"}
	ErrManyKept     = &Error{Kind: Overloaded, Text: "the server keeps too many holders"}
	ErrHolderName   = &Error{Kind: Invalid, Text: "a holder that is kept is somebody, and has a name of 1 to 64 bytes"}
	ErrLapsing      = &Error{Kind: Lapsing, Text: "a lease of the caller is about to end"}
	ErrNoSchedule   = &Error{Kind: NotFound, Text: "no such schedule"}
	ErrOfFile       = &Error{Kind: Exists, Text: "a file sets this schedule: change it there"}
	ErrHookOfFile   = &Error{Kind: Exists, Text: "a file sets the hook of this queue: change it there"}
	ErrInternal     = &Error{Kind: Internal, Text: "internal error"}
)
