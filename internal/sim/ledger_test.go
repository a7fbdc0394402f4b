package sim

import (
	"fmt"
	"maps"

	"millrace/internal/job"
)

// stageName names a callback.
type stageName struct {
	batch job.BatchID
	flag  job.Flags
}

// ledger remembers which job is the callback of which stage. It does not ask the
// model: a stage that has called back once never does so again, and what a batch
// counts is what its jobs say.
type ledger map[stageName]job.ID

// restarted forgets the callbacks that a crash has undone: those beyond the last id that
// had been given out at the boundary. The restart itself may have pushed others since.
func (l ledger) restarted(lastID job.ID) {
	maps.DeleteFunc(l, func(_ stageName, id job.ID) bool { return id > lastID })
}

// members is what the jobs of a batch say about it.
type members struct{ there, tried uint64 }

// audit enters what is there and compares it with what was there before. While a purge
// is being cleaned up, the counts lag behind.
func (l ledger) audit(v View, sweeping bool) error {
	count := map[job.BatchID]members{}
	for _, q := range v.Queues {
		for s := job.Scheduled; int(s) < job.StateCount; s++ {
			for _, j := range v.List(q.Namespace, q.Name, s) {
				if flag := j.Flags & (job.FlagOnComplete | job.FlagOnSuccess); flag != 0 {
					name := stageName{j.Batch, flag}
					if first, ok := l[name]; ok && first != j.ID {
						return fmt.Errorf("INV-14: batch %d has called back with job %d and again with job %d",
							j.Batch, first, j.ID)
					}
					l[name] = j.ID
					continue
				}
				if j.Flags.Has(job.FlagTombstone) {
					continue
				}
				n := count[j.Batch]
				n.there++
				if j.Flags.Has(job.FlagTried) {
					n.tried++
				}
				count[j.Batch] = n
			}
		}
	}
	for _, b := range v.Batches {
		n := count[b.ID]
		if sweeping || b.Pending-n.there == b.Failed-n.tried && n.there <= b.Pending && b.Pending <= b.Total {
			continue // whoever has gone without an ack counts in both
		}
		return fmt.Errorf("INV-14: batch %d counts %d jobs, %d of them pending and %d failed, of which %d are "+
			"there, %d of them tried",
			b.ID, b.Total, b.Pending, b.Failed, n.there, n.tried)
	}
	return nil
}
