package engine

import "millrace/internal/job"

// Sent tells that a delivery has been handed over, or never will be: from now on time may end its leases again. The
// submitter of a fetch with a Delivery calls it when the answer has been written, when the write has failed, or when
// there is nothing to write. It takes the engine's lock only if the end of a lease had to wait.
func (e *Engine) Sent(d *job.Delivery) {
	if !d.End() {
		return
	}
	e.mu.Lock()
	if !e.closed {
		e.guarded(func() { e.core.Sent(e.Now(), d) })
		e.afterStep()
	}
	e.unlock()
}

// beginDelivery begins the delivery of a fetch that has been given jobs. It is called under the
// lock before the answer can leave, so that the connection cannot end a delivery that has not
// begun.
func beginDelivery(cmd job.Command, res *job.Result) {
	if f, ok := cmd.(*job.Fetch); ok && f.Delivery != nil && len(res.Jobs) > 0 {
		f.Delivery.Begin()
	}
}

// askLate tells the machine which of the deliveries that it waits for have been handed over
// already. Of the others Sent tells: Await has marked them, and End sees the mark.
func (e *Engine) askLate() {
	for _, d := range e.core.Late() {
		if !d.Await() {
			e.core.Sent(e.Now(), d)
		}
	}
}

// fire applies what is due before a command. What waits for a delivery that has been handed over is then due again, and
// the command finds it done.
func (e *Engine) fire(now job.Time) {
	e.core.Fire(now, e.draw())
	e.collect()
}
