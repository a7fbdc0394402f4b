package engine

import (
	"fmt"

	"millrace/internal/job"
)

// Backup writes a copy of the data to dir, which must not exist yet: everything that was
// answered before the call, and of what is done meanwhile each commit as a whole or not at all.
// It runs beside everything else; Close waits for it.
func (e *Engine) Backup(dir string) error {
	if !e.readers.TryRLock() { // as with a View: it fails once Close waits
		return job.ErrDraining
	}
	defer e.readers.RUnlock()
	e.barrier()
	if e.stopping.Load() {
		return job.ErrDraining
	}
	if err := e.Err(); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	if err := e.opt.Store.Checkpoint(dir); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	return nil
}
