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

// BackupRequest says where a backup goes.
type BackupRequest struct {
	// A path below backup.dir of the server, or relative to that, which must not exist yet; left out for a name made of
	// the time.
	Dir string `json:"dir,omitempty"`
}

// ExportMark is a line of an export that is no job: after every few hundred lines it tells where an export that
// was cut off there goes on, and the last line of all tells that nothing is missing.
type ExportMark struct {
	Mark     string `json:"mark" api:"enum=cursor|end"`
	Cursor   string `json:"cursor,omitempty"`
	Examined uint64 `json:"examined"` // jobs looked at so far
	Total    uint64 `json:"total"`    // jobs to look at, as of the beginning
	Jobs     uint64 `json:"jobs"`     // that this answer has told so far
	// Lines from the beginning of the export, without marks. An export of a release that did not count them has none.
	Lines    uint64 `json:"lines,omitempty"`
	Checksum string `json:"crc32c,omitempty"` // the CRC-32C of the bytes of those lines, in hexadecimal
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
	Kind        string     `json:"kind" api:"enum=queue"`
	Namespace   string     `json:"namespace"`
	Queue       string     `json:"queue"`
	Configured  bool       `json:"configured,omitempty"` // it has capacity, serials, attrs_base64 and one_per_group
	Capacity    uint64     `json:"capacity,omitempty"`
	Serials     bool       `json:"serials,omitempty"`
	Attrs       []byte     `json:"attrs_base64,omitempty"`  // what its protocol keeps with it
	OnePerGroup bool       `json:"one_per_group,omitempty"` // one job of a group at a time, also if it is fair
	Paused      bool       `json:"paused,omitempty"`
	PausedUntil *time.Time `json:"paused_until,omitempty"`
	Limits      *Limits    `json:"limits,omitempty"`
	Fairness    *Fairness  `json:"fairness,omitempty"`
}

// HookRecord is a line of an export: the hook of a queue, which may have no other line.
type HookRecord struct {
	Kind      string `json:"kind" api:"enum=hook"`
	Namespace string `json:"namespace"`
	Queue     string `json:"queue"`
	NewHook
}

// BatchRecord is a line of an export: a batch, without its jobs, which follow.
type BatchRecord struct {
	Kind       string      `json:"kind" api:"enum=batch"`
	ID         job.BatchID `json:"id"` // an imported batch gets another
	Namespace  string      `json:"namespace"`
	Parent     job.BatchID `json:"parent,omitempty"`
	Text       string      `json:"text,omitempty"`
	Created    *time.Time  `json:"created,omitempty"`
	Committed  *time.Time  `json:"committed,omitempty"`
	Succeeded  *time.Time  `json:"succeeded,omitempty"`
	Acked      uint64      `json:"acked,omitempty"`                          // how many of its jobs have succeeded
	Complete   string      `json:"complete" api:"enum=waiting|pushed|acked"` // how far that callback is
	Success    string      `json:"success" api:"enum=waiting|pushed|acked"`  // how far that callback is
	OpenFor    string      `json:"open_for"`
	KeepFor    string      `json:"keep_for"`
	KeepDone   string      `json:"keep_done"`
	OnComplete *Record     `json:"on_complete,omitempty"` // the job of that callback, as far as it is fixed before it is pushed
	OnSuccess  *Record     `json:"on_success,omitempty"`  // the job of that callback, as far as it is fixed before it is pushed
}

// BatchEnd is a line of an export that comes behind the jobs of a batch.
type BatchEnd struct {
	Kind      string      `json:"kind" api:"enum=batch_end"`
	ID        job.BatchID `json:"id"`
	Namespace string      `json:"namespace"`
	Total     uint64      `json:"total"` // jobs that ever joined
	Open      bool        `json:"open,omitempty"`
}

// CronRecord is a line of an export: a cron entry, with what became of its runs. Their jobs follow.
type CronRecord struct {
	Kind        string     `json:"kind" api:"enum=cron"`
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
	Kind      string     `json:"kind" api:"enum=cron_end"`
	Namespace string     `json:"namespace"`
	Name      string     `json:"name"`
	Paused    bool       `json:"paused,omitempty"`
	Next      *time.Time `json:"next,omitempty"`
}

// ImportOptions say how lines are imported.
type ImportOptions struct {
	// Token names the import, so that a request that is repeated imports nothing twice. The client makes it up.
	Token string
	// The number of the first line of the request within the whole.
	Line uint64 `query:"line" api:"minimum=1 default=1"`
	// Import every job, whatever jobs there are with its key. Otherwise one that was there before the import began
	// counts as existing, and one whose key another job had before is refused. Several jobs of the import may have one
	// key.
	Duplicates bool `query:"duplicates"`
}

// ImportRefusal is a line that was not imported, or not wholly.
type ImportRefusal struct {
	Line    uint64 `json:"line"`
	Problem string `json:"problem"`
}

// ImportResult is what became of the lines of a request.
type ImportResult struct {
	Token    string `json:"token"`
	Line     uint64 `json:"line"`     // the last that is dealt with: the next request begins behind it
	Imported int    `json:"imported"` // jobs
	// Lines whose job was there before the import began: with the same key, pushed at the same time.
	Existed  int             `json:"existed"`
	Queues   int             `json:"queues,omitempty"`  // whose settings are as they were
	Hooks    int             `json:"hooks,omitempty"`   // of queues
	Batches  int             `json:"batches,omitempty"` // that were made again
	Cron     int             `json:"cron,omitempty"`    // entries that were made again
	Repeated int             `json:"repeated"`          // lines that an earlier request has dealt with
	Marks    int             `json:"marks"`             // lines that are cursors or the end of an export
	Refused  []ImportRefusal `json:"refused"`
	// Lines that were imported without what is told.
	Partly []ImportRefusal `json:"partly,omitempty"`
}

// ImportMark is how far an import is.
type ImportMark struct {
	Line uint64    `json:"line"` // the last that is dealt with; 0 if the import is not known
	At   time.Time `json:"at"`
	// The ids of all jobs that were there when the import began are below this.
	Before job.ID `json:"before,omitempty"`
	// The lines of the last request that were refused: its answer may not have arrived.
	Refused []ImportRefusal `json:"refused,omitempty"`
	Partly  []ImportRefusal `json:"partly,omitempty"` // those that were imported without what is told
}

// Migration is a source of which something has arrived.
type Migration struct {
	Source   string    `json:"source"`
	Protocol string    `json:"protocol"`
	Began    time.Time `json:"began"`
	Last     time.Time `json:"last"`
	Arrived  uint64    `json:"arrived"` // how many ids are remembered
}

// MigrationList are the sources of which something has arrived.
type MigrationList struct {
	Migrations []Migration `json:"migrations"`
}

// Forgotten tells how far the forgetting of a source is.
type Forgotten struct {
	Done bool `json:"done"` // nothing is left of it
}

// MigrationOptions say what the lines of a request are.
type MigrationOptions struct {
	Source   string
	Protocol string `query:"protocol" api:"required"` // the protocol of the other server
	// Of the listener whose queues they go to, if the protocol has several; left out it is the first.
	Namespace string `query:"namespace"`
	DryRun    bool   `query:"dry_run"` // tell what would become of them, and change nothing
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
	// One letter for each line: a arrived, r had arrived before, x was refused, g was told to be gone.
	Lines   string          `json:"lines"`
	Refused []MigrationLine `json:"refused"`
	Partly  []MigrationLine `json:"partly"` // arrived, except for what is told
}

// Record is a job as one line of an export. A field that an import does not know is refused, so that
// nothing is lost without a word.
type Record struct {
	ID        job.ID `json:"id,omitempty"` // an imported job gets another
	Namespace string `json:"namespace"`
	Queue     string `json:"queue"`
	State     string `json:"state,omitempty" api:"is=State"`
	Key       string `json:"key,omitempty"`
	Type      string `json:"type,omitempty"`
	Group     string `json:"group,omitempty"`
	// An imported job has the times, attempts, failures and result that it had.
	Created *time.Time `json:"created,omitempty"`
	Since   *time.Time `json:"since,omitempty"`
	// A job that is scheduled or retrying and has none waits for ever.
	RunAt *time.Time `json:"run_at,omitempty"`
	// With order_at, its place among the ready jobs of its queue: low ranks are ahead of all others. Absent: 0.
	Rank     int64      `json:"rank,omitempty" api:"signed"`
	OrderAt  *time.Time `json:"order_at,omitempty"`    // orders jobs of the same rank and priority
	OldPlace bool       `json:"old_place,omitempty"`   // a scheduled job goes to that place when it is due
	Last     bool       `json:"buried_last,omitempty"` // a buried job is behind those that were buried before it
	ExpireAt *time.Time `json:"expire_at,omitempty"`
	Attempts uint32     `json:"attempts,omitempty"`
	Fails    uint32     `json:"fails,omitempty"`
	Buries   uint32     `json:"buries,omitempty"`
	Lapses   uint32     `json:"lapses,omitempty"`
	Releases uint32     `json:"releases,omitempty"`
	Kicks    uint32     `json:"kicks,omitempty"`
	Delay    float64    `json:"delay_seconds,omitempty"` // how long its push or the last release had it wait
	Payload
	Extra    []byte `json:"extra_base64,omitempty"` // what its protocol keeps with it
	Trace    string `json:"traceparent,omitempty"`  // W3C trace context of who pushed it
	PushedBy string `json:"pushed_by"`              // the protocol
	Like     string `json:"like,omitempty"`
	Numbered bool   `json:"numbered,omitempty"`
	Tracked  bool   `json:"tracked,omitempty"`
	Batch    uint64 `json:"batch,omitempty"` // that it is in, as the export tells it
	Tried    bool   `json:"tried,omitempty"` // it counts as failed in its batch
	// Which callback of its batch it is, if it is one.
	Callback  string       `json:"callback,omitempty" api:"enum=complete|success"`
	Schedule  string       `json:"cron,omitempty"` // the entry that has pushed it
	Policy    RecordPolicy `json:"policy"`
	Failures  []Failure    `json:"failures,omitempty" api:"maxItems=10"`
	Result    []byte       `json:"result_base64,omitempty"`
	BlockedBy []job.ID     `json:"blocked_by,omitempty"`
	Blocks    bool         `json:"blocks,omitempty"` // other jobs wait for it
	Lock      string       `json:"lock,omitempty"`   // that it holds

	LockedUntil *time.Time `json:"locked_until,omitempty"`                   // when its lock ends
	LockEnds    string     `json:"lock_ends,omitempty" api:"enum=ack|fetch"` // what ends it before its time

	// Only a job has it that is still to be pushed, by a batch or a cron entry. So it is with the next four.
	Unique     bool    `json:"unique,omitempty"`
	TTL        float64 `json:"ttl_seconds,omitempty"`
	TTLFromRun bool    `json:"ttl_from_run,omitempty"`
	Head       bool    `json:"head,omitempty"`
	LockFor    float64 `json:"lock_for_seconds,omitempty"`
}

// RecordPolicy is the whole of a job's policy.
type RecordPolicy struct {
	Policy
	Priority     int64  `json:"priority" api:"signed"`
	Requeue      string `json:"requeue" api:"enum=tail|old|head|back|due|sched"`
	Due          string `json:"due" api:"enum=tail|old|head|back|due|sched"`
	DeadSlots    bool   `json:"dead_slots,omitempty"`
	BackoffFloor bool   `json:"backoff_floor,omitempty"`
}
