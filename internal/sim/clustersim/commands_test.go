package clustersim

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"time"

	"millrace/internal/job"
)

const namespace = "n"

var (
	queues = []string{"p", "q", "r"}
	spaces = []string{"s"}
)

// timed is the queue that time may limit. If it becomes open while something else happens in it, the document leaves
// open what comes first for those who wait, so nobody waits on it.
const timed = "r"

// command has a client submit something.
func (g *reign) command() error {
	if err := g.checkOver(); err != nil {
		return err
	}
	rng := g.run.rng
	var by job.Holder
	if len(g.holders) < 3 {
		by = g.engine.NewHolder()
		if g.run.holders[by] {
			return fmt.Errorf("R-9: holder %+v of term %d was there before", by, g.number)
		}
		g.run.holders[by] = true
		g.holders = append(g.holders, by)
	} else {
		by = pick(rng, g.holders)
	}
	return g.submit(g.make(by))
}

func (g *reign) make(by job.Holder) job.Command {
	rng := g.run.rng
	queue := pick(rng, queues)
	ref, need := g.ref(&by)
	switch n := rng.IntN(100); {
	case n < 1:
		return &job.SetSchedules{Entries: []job.Schedule{{
			Namespace: namespace, Name: choose(rng, "x", "y"),
			When:    choose(rng, "@every 1s", "*/2 * * * * *", "@hourly"),
			Missed:  choose(rng, job.MissedOnce, job.MissedSkip),
			Overlap: choose(rng, job.OverlapAllow, job.OverlapSkip), Job: g.push(queue).Spec,
		}}}
	case n < 3:
		return &job.KeepHolder{KeptHolder: job.KeptHolder{
			Name: fmt.Sprintf("%d-%d", by.Node, by.Num), Holder: by,
			Grace: choose(rng, 0, time.Second, 5*time.Second, time.Minute),
		}}
	case n < 4:
		return &job.ResumeHolder{Holder: by}
	case n < 10:
		return g.setLimits(queue)
	case n < 12:
		c := &job.SetFair{Namespace: namespace, Queue: queue, Fairness: job.Fairness{On: rng.IntN(3) > 0}}
		if rng.IntN(2) == 0 {
			c.Fairness.Weights = map[string]uint32{"g1": 2}
		}
		return c
	case n < 33:
		return g.push(queue)
	case n < 54:
		f := &job.Fetch{
			Namespace: namespace, Queues: []string{queue}, Max: 1 + rng.IntN(2), Holder: by, Firm: rng.IntN(3) == 0,
			Wait:     choose(rng, 0, 0, 200*time.Millisecond, 5*time.Second, job.WaitForever),
			OnEnd:    choose(rng, job.EndKeep, job.EndRelease),
			LeaseSet: true, Lease: choose(rng, 50*time.Millisecond, 2*time.Second, time.Minute),
		}
		if queue == timed {
			f.Wait = 0
		}
		// If jobs of several queues become ready together, the document leaves open which of them a caller gets that
		// waits.
		if f.Wait == 0 && rng.IntN(3) == 0 {
			f.Queues = append(f.Queues, queues[(slices.Index(queues, queue)+1)%len(queues)])
		}
		return f
	case n < 68:
		return &job.Ack{Ref: ref, By: by, Need: need, Want: rng.IntN(3) == 0}
	case n < 73:
		return &job.Fail{Ref: ref, By: by, Need: need}
	case n < 77:
		return &job.Release{Ref: ref, By: by, Need: need, Delay: choose(rng, 0, time.Second)}
	case n < 80:
		return &job.Delete{Ref: ref, By: by, Need: job.NeedAny}
	case n < 82:
		return &job.Bury{Ref: ref, By: by, Need: need}
	case n < 84:
		return &job.Kick{Namespace: namespace, Queue: queue, Count: 1 + rng.IntN(3)}
	case n < 86:
		return &job.Touch{Ref: ref, By: by, Need: need, Restart: true}
	case n < 93:
		return &job.SetValue{Space: spaces[0], Name: choose(rng, "x", "y"), Value: g.body(), IfAbsent: rng.IntN(2) == 0}
	case n < 95:
		return &job.DropValue{Space: spaces[0], Name: choose(rng, "x", "y")}
	case n < 96:
		return &job.Pause{Namespace: namespace, Queue: queue}
	case n < 98:
		return &job.Resume{Namespace: namespace, Queue: queue}
	case n < 99:
		return &job.Purge{Namespace: namespace, Queue: queue, State: choose(rng, job.Ready, job.Buried)}
	default:
		g.holders = slices.DeleteFunc(g.holders, func(h job.Holder) bool { return h == by })
		return &job.EndHolder{Holder: by}
	}
}

func (g *reign) setLimits(queue string) *job.SetLimits {
	rng := g.run.rng
	c := &job.SetLimits{Namespace: namespace, Queue: queue}
	if rng.IntN(4) == 0 {
		return c
	}
	c.Limits = job.Limits{
		Concurrency: choose[uint32](rng, 0, 1, 2, 3), Worker: choose[uint32](rng, 0, 0, 1, 2),
		GroupConcurrency: choose[uint32](rng, 0, 0, 1, 2),
	}
	if queue == timed {
		c.Limits.SlotFor = choose(rng, 0, time.Second)
		c.Limits.Rate, c.Limits.Per, c.Limits.Burst = choose[uint32](rng, 0, 1, 3), choose(rng, time.Second,
			10*time.Second), choose[uint32](rng, 0, 2)
		c.Limits.GroupRate, c.Limits.GroupPer = choose[uint32](rng, 0, 1, 2), choose(rng, time.Second, time.Minute)
	}
	return c
}

func (g *reign) push(queue string) *job.Push {
	rng := g.run.rng
	p := &job.Push{Spec: job.Spec{
		Namespace: namespace, Queue: queue, Group: choose(rng, "", "", "g1", "g2", "g3"),
		Body: g.body(), BodyKind: job.BodyBytes,
	}}
	p.Spec.Policy.Lease = choose(rng, 0, time.Second, time.Minute)
	p.Spec.Policy.MaxFails = uint32(rng.IntN(3))
	if rng.IntN(3) == 0 {
		p.Spec.Key, p.Spec.Unique = choose(rng, "k1", "k2", "k3", "k4"), true
	}
	if rng.IntN(5) == 0 {
		p.Spec.Delay = choose(rng, 10*time.Millisecond, time.Second, time.Hour)
	}
	if rng.IntN(6) == 0 {
		p.Spec.TTL = choose(rng, time.Second, time.Hour)
	}
	return p
}

func (g *reign) body() []byte {
	rng := g.run.rng
	size := rng.IntN(12)
	if rng.IntN(6) == 0 {
		size = rng.IntN(1500)
	}
	return bytes.Repeat([]byte{byte('a' + rng.IntN(26))}, size)
}

// ref names a job that a client was given, mostly as who was given it, or any.
func (g *reign) ref(by *job.Holder) (job.Ref, job.Need) {
	rng := g.run.rng
	if n := len(g.run.held); n > 0 && rng.IntN(4) > 0 {
		h := g.run.held[max(0, n-1-rng.IntN(6))]
		if rng.IntN(2) == 0 {
			*by = h.holder
			return job.ByID(namespace, "", h.id), job.NeedHeld
		}
		return job.ByID(namespace, "", h.id), job.NeedLeased
	}
	return job.ByID(namespace, "", job.ID(1+rng.IntN(20))), job.NeedUnfinished
}

// cancelAny ends the wait of somebody.
func (g *reign) cancelAny() error {
	var waiting []*call
	for _, token := range slices.Sorted(maps.Keys(g.calls)) {
		if c := g.calls[token]; c.want == nil {
			waiting = append(waiting, c)
		}
	}
	if len(waiting) == 0 || g.deaf {
		return nil
	}
	return g.cancel(pick(g.run.rng, waiting))
}
