package faktory

import (
	"runtime/metrics"
	"strconv"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/dialect/jsonscan"
	"millrace/internal/engine"
	"millrace/internal/job"
)

// compatVersion is the version of the original whose behaviour this is. Clients parse
// it, so it is not ours.
const compatVersion = "1.10.0"

// object writes JSON objects member by member.
type object struct {
	out   []byte
	comma bool // a member has been written in the object that is open
}

func (o *object) key(name string) {
	if o.comma {
		o.out = append(o.out, ',')
	}
	o.comma = true
	o.out = append(jsonscan.AppendQuoted(o.out, name), ':')
}

// open begins a member that is an object; without a name it is no member.
func (o *object) open(name string) {
	if name != "" {
		o.key(name)
	}
	o.out = append(o.out, '{')
	o.comma = false
}

func (o *object) close() {
	o.out = append(o.out, '}')
	o.comma = true
}

func (o *object) number(name string, n uint64) {
	o.key(name)
	o.out = strconv.AppendUint(o.out, n, 10)
}

func (o *object) text(name, text string) {
	o.key(name)
	o.out = jsonscan.AppendQuoted(o.out, text)
}

// runInfo answers INFO (protocol section 7). What this connection was told before is
// committed first.
func (c *conn) runInfo() {
	defer c.TakeAlone()()
	start := len(c.Out())
	out, m := beginBulk(c.Out(), 1000)
	o := &object{out: out}
	if err := c.d.writeInfo(o); err != nil {
		c.SetOut(o.out[:start])
		c.readFailed(err)
		return
	}
	c.SetOut(m.end(o.out))
}

// writeInfo writes the object that INFO answers.
func (d *Dialect) writeInfo(o *object) error {
	o.open("")
	o.open("faktory")
	o.open("queues")
	s, missing, err := d.writeQueues(o)
	if err != nil {
		return err
	}
	o.close()
	d.writeSets(o, &s)
	if missing > 0 {
		o.number("queues_not_listed", missing)
	}
	o.close()
	d.writeServer(o)
	o.close()
	return nil
}

// writeQueues lists the queues. It returns the sums of all, and how many are not listed because there are too many. A
// queue that was removed is not shown, but what it did counts.
func (d *Dialect) writeQueues(o *object) (sums job.Sums, missing uint64, err error) {
	listed, all := uint64(0), false
	err = d.opts.Engine.Read(func(v *engine.View) (err error) {
		sums, all, err = dialect.EachShown(v, d.opts.Namespace, func(q *job.QueueInfo) {
			o.number(q.Name, q.Counts[job.Ready])
			listed++
		})
		return err
	})
	if err != nil || all {
		return sums, 0, err
	}
	sums, err = d.opts.Engine.Sums(d.opts.Namespace)
	there := sums.Queues - sums.Hidden
	return sums, there - min(there, listed), err
}

// readFailed answers a read of the engine that failed.
func (c *conn) readFailed(err error) { c.refuse(refusal(c.d.ReadFailed(err))) }

// writeSets writes what INFO says about jobs besides the queues.
func (d *Dialect) writeSets(o *object, s *job.Sums) {
	working, failed := s.Counts[job.Leased], s.Totals[job.CountFailed]
	sets := []struct {
		name, task string
		size       uint64
	}{
		{"dead", "Dead", s.Counts[job.Dead]},
		{"retries", "Retries", s.Counts[job.Retrying]},
		{"scheduled", "Scheduled", s.Counts[job.Scheduled]},
	}
	o.open("sets")
	for _, set := range sets {
		o.number(set.name, set.size)
	}
	o.number("working", working)
	o.close()
	o.open("tasks")
	o.open("Busy")
	o.number("reaped", max(s.Totals[job.CountLapsed], d.lapsed)-d.lapsed)
	o.number("size", working)
	o.close()
	// The original's tasks look at a set now and then. Here nothing is looked at before
	// its time, so there are no cycles to count.
	for _, set := range sets {
		o.open(set.task)
		o.number("cycles", 0)
		o.number("enqueued", 0)
		o.number("size", set.size)
		o.number("wall_time_sec", 0)
		o.close()
	}
	o.open("Workers")
	o.number("reaped", d.workers.reaped.Load())
	o.number("size", uint64(d.workers.count())) //nolint:gosec // a length
	o.close()
	o.close()
	o.number("total_failures", failed)
	o.number("total_processed", s.Totals[job.CountAcked]+failed)
	o.number("total_enqueued", s.Counts[job.Ready])
	o.number("total_queues", s.Queues-s.Hidden)
}

// writeServer writes what INFO says about the server, and the time.
func (d *Dialect) writeServer(o *object) {
	now := time.Now().UTC()
	o.text("now", now.Format(time.RFC3339Nano))
	o.text("server_utc_time", now.Format("15:04:05 UTC"))
	o.open("server")
	o.text("description", d.description())
	o.text("faktory_version", compatVersion)
	o.number("uptime", uint64(max(0, now.Sub(d.started)/time.Second)))
	o.number("connections", uint64(max(0, d.Stats().Open)))
	o.number("command_count", d.known.Load())
	o.number("used_memory_mb", usedMemory()>>20)
	o.close()
}

func (d *Dialect) description() string {
	if d.opts.Version == "" {
		return "Faktory (Millrace)"
	}
	return "Faktory (Millrace " + d.opts.Version + ")"
}

// usedMemory returns how many bytes the process has from the system and uses.
func usedMemory() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 || sample[1].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64() - sample[1].Value.Uint64()
}
