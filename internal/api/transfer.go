package api

import (
	"fmt"
	"hash/crc32"
	"time"

	"millrace/internal/job"
)

// Backup is a copy of the data that was made while the server ran.
type Backup struct {
	Dir     string  `json:"dir"` // on the server's machine
	Bytes   uint64  `json:"bytes"`
	Files   int     `json:"files"`
	Seconds float64 `json:"seconds"` // that it took
}

// ExportMark is a line of an export that is no job: after every few hundred lines it tells where an export that
// was cut off there goes on, and the last line of all tells that nothing is missing.
type ExportMark struct {
	// Mark is cursor, or end.
	Mark     string `json:"mark"`
	Cursor   string `json:"cursor,omitempty"`
	Examined uint64 `json:"examined"` // jobs looked at so far
	Total    uint64 `json:"total"`    // jobs to look at, as of the beginning
	Jobs     uint64 `json:"jobs"`     // that this answer has told so far
	// Lines is how many lines there are from the beginning of the export, without marks; Checksum is the CRC-32C of
	// their bytes, in hexadecimal. An export of a release that had none lacks both.
	Lines    uint64 `json:"lines,omitempty"`
	Checksum string `json:"crc32c,omitempty"`
}

// The marks.
const (
	MarkCursor = "cursor"
	MarkEnd    = "end"
)

// Checksum goes on with the checksum of an export.
func Checksum(sum uint32, lines []byte) uint32 { return crc32.Update(sum, castagnoli, lines) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ShowChecksum writes a checksum as a mark has it.
func ShowChecksum(sum uint32) string { return fmt.Sprintf("%08x", sum) }

// The kinds of lines that are no jobs.
const (
	KindQueue    = "queue"
	KindBatch    = "batch"
	KindBatchEnd = "batch_end"
	KindCron     = "cron"
	KindCronEnd  = "cron_end"
	KindHook     = "hook"
)

// QueueRecord is a line of an export: the settings of a queue. One that has none is made by its jobs.
type QueueRecord struct {
	Kind        string     `json:"kind"` // queue
	Namespace   string     `json:"namespace"`
	Queue       string     `json:"queue"`
	Configured  bool       `json:"configured,omitempty"` // it has the next three
	Capacity    uint64     `json:"capacity,omitempty"`
	Serials     bool       `json:"serials,omitempty"`
	Attrs       []byte     `json:"attrs_base64,omitempty"` // what its protocol keeps with it
	Paused      bool       `json:"paused,omitempty"`
	PausedUntil *time.Time `json:"paused_until,omitempty"`
	Limits      *Limits    `json:"limits,omitempty"`
	Fairness    *Fairness  `json:"fairness,omitempty"`
}

// HookRecord is a line of an export: the hook of a queue, which may have no other line.
type HookRecord struct {
	Kind      string `json:"kind"` // hook
	Namespace string `json:"namespace"`
	Queue     string `json:"queue"`
	NewHook
}

// BatchRecord is a line of an export: a batch, without its jobs, which follow.
type BatchRecord struct {
	Kind      string      `json:"kind"` // batch
	ID        job.BatchID `json:"id"`   // an imported batch gets another
	Namespace string      `json:"namespace"`
	Parent    job.BatchID `json:"parent,omitempty"`
	Text      string      `json:"text,omitempty"`
	Created   *time.Time  `json:"created,omitempty"`
	Committed *time.Time  `json:"committed,omitempty"`
	Succeeded *time.Time  `json:"succeeded,omitempty"`
	Acked     uint64      `json:"acked,omitempty"` // of its jobs
	Complete  string      `json:"complete"`        // how far its callback is: waiting, pushed or acked
	Success   string      `json:"success"`
	OpenFor   string      `json:"open_for"`
	KeepFor   string      `json:"keep_for"`
	KeepDone  string      `json:"keep_done"`
	// OnComplete and OnSuccess are the jobs of its callbacks, as far as a job is fixed before it is pushed.
	OnComplete *Record `json:"on_complete,omitempty"`
	OnSuccess  *Record `json:"on_success,omitempty"`
}

// BatchEnd is a line of an export that comes behind the jobs of a batch.
type BatchEnd struct {
	Kind      string      `json:"kind"` // batch_end
	ID        job.BatchID `json:"id"`
	Namespace string      `json:"namespace"`
	Total     uint64      `json:"total"` // jobs that ever joined
	Open      bool        `json:"open,omitempty"`
}

// CronRecord is a line of an export: a cron entry, with what became of its runs. Their jobs follow.
type CronRecord struct {
	Kind        string     `json:"kind"` // cron
	Namespace   string     `json:"namespace"`
	Name        string     `json:"name"`
	Schedule    string     `json:"schedule"`
	TimeZone    string     `json:"time_zone,omitempty"`
	Missed      string     `json:"missed"`
	MissedLimit uint32     `json:"missed_limit,omitempty"`
	Overlap     string     `json:"overlap"`
	Job         Record     `json:"job"`
	Created     *time.Time `json:"created,omitempty"`
	LastTick    *time.Time `json:"last_tick,omitempty"`
	LastRun     *time.Time `json:"last_run,omitempty"`
	Fired       uint64     `json:"fired,omitempty"`
	MissedCount uint64     `json:"missed_count,omitempty"`
	Skipped     uint64     `json:"skipped,omitempty"`
	Runs        []CronRun  `json:"runs,omitempty"` // the newest first
}

// CronEnd is a line of an export that comes behind the jobs of a cron entry.
type CronEnd struct {
	Kind      string     `json:"kind"` // cron_end
	Namespace string     `json:"namespace"`
	Name      string     `json:"name"`
	Paused    bool       `json:"paused,omitempty"`
	Next      *time.Time `json:"next,omitempty"`
}

// ImportOptions say how lines are imported.
type ImportOptions struct {
	// Token names the import, so that a request that is repeated imports nothing twice. The client makes it up.
	Token string
	// Line is the number of the first line of the request within the whole, from 1 on.
	Line uint64
	// Duplicates imports every job, whatever jobs there are with its key. Otherwise one that was there before the
	// import began counts as existing, and one whose key another job had before is refused. Several jobs of the import
	// may have one key.
	Duplicates bool
}

// ImportRefusal is a line that was not imported, or not wholly.
type ImportRefusal struct {
	Line    uint64 `json:"line"`
	Problem string `json:"problem"`
}

// ImportResult is what became of the lines of a request.
type ImportResult struct {
	Token string `json:"token"`
	// Line is the last line that is dealt with; the next request begins behind it.
	Line     uint64          `json:"line"`
	Imported int             `json:"imported"` // jobs
	Existed  int             `json:"existed"`
	Queues   int             `json:"queues,omitempty"`  // with settings
	Hooks    int             `json:"hooks,omitempty"`   // of queues
	Batches  int             `json:"batches,omitempty"` // that were made again
	Cron     int             `json:"cron,omitempty"`    // entries that were made again
	Repeated int             `json:"repeated"`          // an earlier request has dealt with them
	Marks    int             `json:"marks"`             // no jobs: cursors and the end of an export
	Refused  []ImportRefusal `json:"refused"`
	// Partly are lines that were imported without what is told.
	Partly []ImportRefusal `json:"partly,omitempty"`
}

// ImportMark is how far an import is.
type ImportMark struct {
	Line uint64    `json:"line"`
	At   time.Time `json:"at"`
	// Before is what the ids of all jobs were below when the import began.
	Before job.ID `json:"before,omitempty"`
	// Refused are those lines of the last request, up to Line, that were refused: its answer may not have arrived.
	Refused []ImportRefusal `json:"refused,omitempty"`
	Partly  []ImportRefusal `json:"partly,omitempty"` // likewise
}

// Migration is a source of which something has arrived.
type Migration struct {
	Source   string    `json:"source"`
	Protocol string    `json:"protocol"`
	Began    time.Time `json:"began"`
	Last     time.Time `json:"last"`
	Arrived  uint64    `json:"arrived"` // that are marked
}

// MigrationOptions say what the lines of a request are.
type MigrationOptions struct {
	Source    string
	Protocol  string
	Namespace string // of the listener that would have taken them; empty: the first of the protocol
	DryRun    bool   // tell what would become of them, and change nothing
}

// What has become of a line, in MigrationResult.Lines.
const (
	LineArrived  = 'a' // by this request
	LineRepeated = 'r' // it had arrived before
	LineRefused  = 'x'
	LineGone     = 'g' // its mark has been dropped, if there was one
)

// MigrationLine tells something about one line.
type MigrationLine struct {
	Line    int    `json:"line"` // of the request, from 1 on
	ID      string `json:"id"`
	Problem string `json:"problem"`
}

// MigrationResult is what became of the lines of a request.
type MigrationResult struct {
	Namespace string `json:"namespace,omitempty"` // of the last job
	Arrived   int    `json:"arrived"`
	Repeated  int    `json:"repeated"`
	// Lines has one letter for each line.
	Lines   string          `json:"lines"`
	Refused []MigrationLine `json:"refused"`
	Partly  []MigrationLine `json:"partly"` // arrived, except for what is told
}

// Record is a job as one line of an export. A field that an import does not know is refused, so that
// nothing is lost without a word.
type Record struct {
	ID        job.ID     `json:"id,omitempty"` // an imported job gets another
	Namespace string     `json:"namespace"`
	Queue     string     `json:"queue"`
	State     string     `json:"state,omitempty"`
	Key       string     `json:"key,omitempty"`
	Type      string     `json:"type,omitempty"`
	Group     string     `json:"group,omitempty"`
	Created   *time.Time `json:"created,omitempty"`
	Since     *time.Time `json:"since,omitempty"`
	RunAt     *time.Time `json:"run_at,omitempty"`
	Rank      int64      `json:"rank,omitempty"`        // with the next, its place among the ready jobs
	OrderAt   *time.Time `json:"order_at,omitempty"`    // as Rank
	OldPlace  bool       `json:"old_place,omitempty"`   // that is where it goes when it is due
	Last      bool       `json:"buried_last,omitempty"` // it is behind those that were buried before it
	ExpireAt  *time.Time `json:"expire_at,omitempty"`
	Attempts  uint32     `json:"attempts,omitempty"`
	Fails     uint32     `json:"fails,omitempty"`
	Buries    uint32     `json:"buries,omitempty"`
	Lapses    uint32     `json:"lapses,omitempty"`
	Releases  uint32     `json:"releases,omitempty"`
	Kicks     uint32     `json:"kicks,omitempty"`
	Delay     float64    `json:"delay_seconds,omitempty"` // how long its push or the last release had it wait
	Payload
	Extra    []byte `json:"extra_base64,omitempty"` // what its protocol keeps with it
	Trace    string `json:"traceparent,omitempty"`
	PushedBy string `json:"pushed_by"` // the protocol
	Like     string `json:"like,omitempty"`
	Numbered bool   `json:"numbered,omitempty"`
	Tracked  bool   `json:"tracked,omitempty"`
	Batch    uint64 `json:"batch,omitempty"`
	Tried    bool   `json:"tried,omitempty"` // it counts as failed in its batch
	// What it is to its batch, if it does not count in it: complete or success.
	Callback  string       `json:"callback,omitempty"`
	Schedule  string       `json:"cron,omitempty"` // the entry that has pushed it
	Policy    RecordPolicy `json:"policy"`
	Failures  []Failure    `json:"failures,omitempty"`
	Result    []byte       `json:"result_base64,omitempty"`
	BlockedBy []job.ID     `json:"blocked_by,omitempty"`
	Blocks    bool         `json:"blocks,omitempty"` // other jobs wait for it
	Lock      string       `json:"lock,omitempty"`
	// LockedUntil is when its lock ends; LockEnds says what ends it before: ack or fetch.
	LockedUntil *time.Time `json:"locked_until,omitempty"`
	LockEnds    string     `json:"lock_ends,omitempty"`

	// What follows only a job has that is still to be pushed, by a batch or a cron entry.
	Unique     bool    `json:"unique,omitempty"`
	TTL        float64 `json:"ttl_seconds,omitempty"`
	TTLFromRun bool    `json:"ttl_from_run,omitempty"`
	Head       bool    `json:"head,omitempty"`
	LockFor    float64 `json:"lock_for_seconds,omitempty"`
}

// RecordPolicy is the whole of a job's policy.
type RecordPolicy struct {
	Policy
	Priority     int64  `json:"priority"`
	Requeue      string `json:"requeue"`
	Due          string `json:"due"`
	DeadSlots    bool   `json:"dead_slots,omitempty"`
	BackoffFloor bool   `json:"backoff_floor,omitempty"`
}
