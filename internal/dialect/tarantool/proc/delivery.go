package proc

import "millrace/internal/job"

// delivery is a task on its way to the client.
type delivery struct {
	ref    job.Ref
	holder job.Holder
	way    *job.Delivery
}

// deliver notes the tasks that a call is about to give to the client.
func (c *Conn) deliver(call *Call, res *job.Result) {
	f, ok := call.Command.(*job.Fetch)
	if !ok {
		return
	}
	if len(res.Jobs) == 0 {
		c.recycle(f.Delivery)
	}
	for i := range res.Jobs {
		c.unsent = append(c.unsent, delivery{ref: res.Jobs[i].Ref(), holder: f.Holder, way: f.Delivery})
	}
}

// newDelivery returns what follows the answer of a take. Several may be on their way at a time.
func (c *Conn) newDelivery() *job.Delivery {
	n := len(c.spare)
	if n == 0 {
		return new(job.Delivery)
	}
	d := c.spare[n-1]
	c.spare = c.spare[:n-1]
	return d
}

// delivered tells the engine that what was on its way has been written, or never will be.
func (c *Conn) delivered() {
	for _, d := range c.unsent {
		c.host.Engine.Sent(d.way)
		c.recycle(d.way)
	}
	c.unsent = c.unsent[:0]
}

// recycle keeps a delivery that is over, for the next take.
func (c *Conn) recycle(d *job.Delivery) {
	if len(c.spare) < listKept {
		c.spare = append(c.spare, d)
	}
}

// flush sends the output. What was delivered with it has reached the client as far
// as anybody can tell.
func (c *Conn) flush() error {
	err := c.Flush()
	if err == nil {
		c.delivered()
	}
	return err
}
