package operator

import (
	"runtime"
	"time"

	"millrace/internal/api"
	"millrace/internal/engine"
	"millrace/internal/job"
)

// Settings returns the effective configuration, in the order of its reference.
func (s *Service) Settings() []api.Setting {
	if s.opts.Settings == nil {
		return []api.Setting{}
	}
	return s.opts.Settings()
}

// Storage returns the figures of the store and the engine. Counters run from the start of the
// server.
func (s *Service) Storage() api.Storage {
	st, en := s.engine.StoreStats(), s.engine.Stats()
	out := api.Storage{
		Dir: s.opts.DataDir, BackupDir: s.opts.BackupDir, Durability: s.opts.Durability, DiskBytes: st.DiskBytes,
		LogBytes: st.WALBytes, NoSpace: en.NoSpace,
		RefusedPushes: en.Refused, MemtableBytes: st.MemTableBytes, CacheBytes: st.CacheBytes, CacheHits: st.CacheHits,
		CacheMisses: st.CacheMisses, Commits: st.Commits, CommittedBytes: st.CommittedBytes, Syncs: st.Syncs.Count,
		SyncSeconds: st.Syncs.Sum.Seconds(), SyncMaxSeconds: st.SyncMax.Seconds(), Flushes: st.Flushes,
		Compactions:         st.Compactions,
		CompactionDebtBytes: st.CompactionDebt, ReadAmplification: st.ReadAmp, Tables: st.Tables,
		Tombstones:  st.Tombstones,
		WriteStalls: st.WriteStalls, WriteStallSeconds: st.WriteStallTime.Seconds(),
		BackgroundErrors: st.BackgroundErrors,
		Commands:         en.Commands, Waiting: en.Waiters,
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

// Server returns what is known about the server itself. The role is left to who knows it.
func (s *Service) Server() api.ServerInfo {
	ready, _ := s.Health()
	return api.ServerInfo{
		Version: s.opts.Version, Go: runtime.Version(), Started: s.started.UTC(),
		UptimeSeconds: s.opts.Now().Sub(s.started).Seconds(),
		Now:           time.Now().UTC(), Durability: s.opts.Durability, Ready: ready,
	}
}

var callbacks = [...]string{job.CallbackWaiting: "waiting", job.CallbackPushed: "pushed", job.CallbackAcked: "acked"}

func batch(b *job.BatchInfo) api.Batch {
	return api.Batch{
		ID: uint64(b.ID), Namespace: b.Namespace, Parent: uint64(b.Parent), Text: b.Text,
		Created: api.Instant(b.Created), Open: b.Open,
		Total: b.Total, Pending: b.Pending, Failed: b.Failed, Children: b.Children,
		Complete: api.NameOf(callbacks[:], b.Complete),
		Success:  api.NameOf(callbacks[:], b.Success), ForgetAt: api.Instant(b.ForgetAt),
	}
}

// Batches lists the batches of a namespace, the oldest first.
func (s *Service) Batches(namespace string, page api.PageOf) (api.BatchPage, error) {
	out := api.BatchPage{Batches: []api.Batch{}}
	if namespace == "" {
		return out, api.Invalid("namespace: it is missing")
	}
	limit, at, err := beginPage(page, "batches", fingerprint(namespace))
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
func (s *Service) Batch(namespace string, id uint64) (api.Batch, error) {
	b, ok, err := s.engine.Batch(namespace, job.BatchID(id))
	if err == nil && !ok {
		err = api.NotFound("there is no batch %d in namespace %q", id, namespace)
	}
	if err != nil {
		return api.Batch{}, api.Refusal(err)
	}
	return batch(&b), nil
}
