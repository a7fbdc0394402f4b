package admin

import (
	"runtime"
	"time"

	"millrace/internal/api"
	"millrace/internal/engine"
	"millrace/internal/job"
)

// Setting is the effective value of one key of the configuration.
type Setting struct {
	Key     string `json:"key"`
	Value   string `json:"value"`  // secrets are masked
	Source  string `json:"source"` // where the value comes from
	Default string `json:"default"`
	Secret  bool   `json:"secret"`
	Help    string `json:"help"`
}

// Settings returns the effective configuration, in the order of its reference.
func (s *Service) Settings() []Setting {
	if s.opts.Settings == nil {
		return []Setting{}
	}
	return s.opts.Settings()
}

// Storage are the figures of the store.
type Storage struct {
	Dir                 string  `json:"dir"`
	BackupDir           string  `json:"backup_dir,omitempty"` // what backups are below
	Durability          string  `json:"durability"`
	DiskBytes           uint64  `json:"disk_bytes"`
	LogBytes            uint64  `json:"log_bytes"` // of those, write-ahead log
	FreeBytes           *uint64 `json:"free_bytes,omitempty"`
	NoSpace             bool    `json:"no_space"` // pushes are refused
	RefusedPushes       uint64  `json:"refused_pushes"`
	MemtableBytes       uint64  `json:"memtable_bytes"`
	CacheBytes          uint64  `json:"cache_bytes"`
	CacheHits           int64   `json:"cache_hits"`
	CacheMisses         int64   `json:"cache_misses"`
	Commits             uint64  `json:"commits"`
	CommittedBytes      uint64  `json:"committed_bytes"`
	Syncs               uint64  `json:"syncs"`
	SyncSeconds         float64 `json:"sync_seconds"` // spent in them
	SyncMaxSeconds      float64 `json:"sync_max_seconds"`
	Flushes             int64   `json:"flushes"`
	Compactions         int64   `json:"compactions"`
	CompactionDebtBytes uint64  `json:"compaction_debt_bytes"`
	ReadAmplification   int     `json:"read_amplification"`
	Tables              int64   `json:"tables"`
	Tombstones          uint64  `json:"tombstones"`
	WriteStalls         uint64  `json:"write_stalls"`
	WriteStallSeconds   float64 `json:"write_stall_seconds"`
	BackgroundErrors    uint64  `json:"background_errors"`
	Commands            uint64  `json:"commands"` // applied by the engine
	CommandsPerCommit   float64 `json:"commands_per_commit"`
	Waiting             int     `json:"waiting"` // callers that wait for something
}

// Storage returns the figures of the store and the engine. Counters run from the start of the
// server.
func (s *Service) Storage() Storage {
	st, en := s.engine.StoreStats(), s.engine.Stats()
	out := Storage{
		Dir: s.opts.DataDir, BackupDir: s.opts.BackupDir, Durability: s.opts.Durability, DiskBytes: st.DiskBytes, LogBytes: st.WALBytes, NoSpace: en.NoSpace,
		RefusedPushes: en.Refused, MemtableBytes: st.MemTableBytes, CacheBytes: st.CacheBytes, CacheHits: st.CacheHits,
		CacheMisses: st.CacheMisses, Commits: st.Commits, CommittedBytes: st.CommittedBytes, Syncs: st.Syncs.Count,
		SyncSeconds: st.Syncs.Sum.Seconds(), SyncMaxSeconds: st.SyncMax.Seconds(), Flushes: st.Flushes, Compactions: st.Compactions,
		CompactionDebtBytes: st.CompactionDebt, ReadAmplification: st.ReadAmp, Tables: st.Tables, Tombstones: st.Tombstones,
		WriteStalls: st.WriteStalls, WriteStallSeconds: st.WriteStallTime.Seconds(), BackgroundErrors: st.BackgroundErrors,
		Commands: en.Commands, Waiting: en.Waiters,
	}
	if en.Commits > 0 {
		out.CommandsPerCommit = float64(en.Commands) / float64(en.Commits)
	}
	if s.opts.FreeBytes != nil {
		if free, err := s.opts.FreeBytes(); err == nil {
			out.FreeBytes = &free
		}
	}
	return out
}

// ServerInfo is what is known about the server itself.
type ServerInfo struct {
	Version       string    `json:"version"`
	Go            string    `json:"go"`
	Started       time.Time `json:"started"`
	UptimeSeconds float64   `json:"uptime_seconds"`
	Now           time.Time `json:"now"`
	Durability    string    `json:"durability"`
	Ready         bool      `json:"ready"`
	// Role is what the caller may do: read or operate.
	Role string `json:"role"`
}

// Server returns what is known about the server itself. The role is left to who knows it.
func (s *Service) Server() ServerInfo {
	ready, _ := s.Health()
	return ServerInfo{
		Version: s.opts.Version, Go: runtime.Version(), Started: s.started.UTC(), UptimeSeconds: s.opts.Now().Sub(s.started).Seconds(),
		Now: time.Now().UTC(), Durability: s.opts.Durability, Ready: ready,
	}
}

// Batch is a batch of jobs.
type Batch struct {
	ID        uint64     `json:"id"`
	Namespace string     `json:"namespace"`
	Parent    uint64     `json:"parent,omitempty"`
	Text      string     `json:"text,omitempty"`
	Created   *time.Time `json:"created,omitempty"`
	Open      bool       `json:"open"`
	Total     uint64     `json:"total"`
	Pending   uint64     `json:"pending"`
	Failed    uint64     `json:"failed"`
	Children  uint64     `json:"children"` // that have not succeeded
	Complete  string     `json:"complete"` // its callback: waiting, pushed or acked
	Success   string     `json:"success"`
	ForgetAt  *time.Time `json:"forget_at,omitempty"`
}

var callbacks = [...]string{job.CallbackWaiting: "waiting", job.CallbackPushed: "pushed", job.CallbackAcked: "acked"}

func batch(b *job.BatchInfo) Batch {
	return Batch{
		ID: uint64(b.ID), Namespace: b.Namespace, Parent: uint64(b.Parent), Text: b.Text, Created: api.Instant(b.Created), Open: b.Open,
		Total: b.Total, Pending: b.Pending, Failed: b.Failed, Children: b.Children, Complete: api.NameOf(callbacks[:], b.Complete),
		Success: api.NameOf(callbacks[:], b.Success), ForgetAt: api.Instant(b.ForgetAt),
	}
}

// BatchPage is a part of the list of batches.
type BatchPage struct {
	Batches []Batch `json:"batches"`
	Next    string  `json:"next,omitempty"`
}

// Batches lists the batches of a namespace, the oldest first.
func (s *Service) Batches(namespace string, page PageOf) (BatchPage, error) {
	out := BatchPage{Batches: []Batch{}}
	if namespace == "" {
		return out, api.Invalid("namespace: it is missing")
	}
	limit, err := page.size()
	if err != nil {
		return out, err
	}
	at, err := parseCursor(page.Cursor, "batches", fingerprint(namespace))
	if err != nil {
		return out, err
	}
	err = s.view(func(v *engine.View) error {
		infos, err := v.Batches(namespace, job.BatchID(at.ID), limit+1)
		if err != nil {
			return err
		}
		for i := range infos {
			if i == limit {
				at.ID = uint64(infos[limit-1].ID)
				out.Next = at.cursor()
				break
			}
			out.Batches = append(out.Batches, batch(&infos[i]))
		}
		return nil
	})
	return out, err
}

// Batch returns what is known about a batch.
func (s *Service) Batch(namespace string, id uint64) (Batch, error) {
	b, ok, err := s.engine.Batch(namespace, job.BatchID(id))
	if err == nil && !ok {
		err = api.NotFound("there is no batch %d in namespace %q", id, namespace)
	}
	if err != nil {
		return Batch{}, api.Refusal(err)
	}
	return batch(&b), nil
}
