package admin

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"millrace/internal/api"
	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/timing"
)

// The history of protocols, queues and types is kept apart from that of the whole, in fewer and longer slots, because
// each slot holds much more. Its size is bounded: a slot has the busiest queues and types only.

// periods are the rings of that history.
var periods = [...]resolution{
	{"hour", time.Minute, 60},
	{"day", 15 * time.Minute, 96},
	{"month", 6 * time.Hour, 120},
}

const (
	// partsSpace is where the slots are kept, under the period and their place in the ring.
	partsSpace = "admin.parts"

	partsKept = 20   // queues of a slot, and as many types
	partsOpen = 2000 // parts of a slot that is not over
)

// part is what happened to a protocol, a queue or a type of jobs in a slot, as it is kept. Its form is JSON, so that
// fields may be added.
type part struct {
	Protocol  string `json:"d,omitempty"` // of a protocol
	Type      string `json:"t,omitempty"` // of a type
	Namespace string `json:"n,omitempty"` // of a queue
	Queue     string `json:"q,omitempty"`
	Pushed    uint64 `json:"p,omitempty"`
	Fetched   uint64 `json:"f,omitempty"`
	Acked     uint64 `json:"a,omitempty"`
	Failed    uint64 `json:"x,omitempty"`
	// Waits are how long jobs waited: the number of a bucket and its count, one after the other; WaitSum is their sum.
	Waits   []uint64      `json:"w,omitempty"`
	WaitSum time.Duration `json:"s,omitempty"`
	// Runs are how long jobs ran, in the same form. Only types have them.
	Runs   []uint64      `json:"r,omitempty"`
	RunSum time.Duration `json:"u,omitempty"`

	wait, run *timing.Histogram // Waits and Runs while they are added to
}

func (p *part) sum() uint64 { return p.Pushed + p.Fetched + p.Acked + p.Failed }

func (p *part) add(t *tally, wait *timing.Histogram) {
	p.Pushed += t[tallyPushed]
	p.Fetched += t[tallyFetched]
	p.Acked += t[tallyAcked]
	p.Failed += t[tallyFailed]
	addTimes(&p.wait, wait)
}

// addTimes adds times to others, which are made if there are none.
func addTimes(to **timing.Histogram, more *timing.Histogram) {
	if more == nil || more.Count == 0 {
		return
	}
	if *to == nil {
		*to = new(timing.Histogram)
	}
	(*to).Add(more)
}

// pack makes Waits and Runs of the histograms.
func (p *part) pack() {
	p.Waits, p.WaitSum = packTimes(p.wait)
	p.Runs, p.RunSum = packTimes(p.run)
}

func packTimes(h *timing.Histogram) (packed []uint64, sum time.Duration) {
	if h == nil {
		return nil, 0
	}
	for i, n := range h.Buckets {
		if n > 0 {
			packed = append(packed, uint64(i), n)
		}
	}
	return packed, h.Sum
}

// unpack makes histograms of Waits and Runs.
func (p *part) unpack() {
	p.wait, p.run = unpackTimes(p.Waits, p.WaitSum), unpackTimes(p.Runs, p.RunSum)
}

// unpackTimes is the inverse of packTimes. What is not one of ours is left out.
func unpackTimes(packed []uint64, sum time.Duration) *timing.Histogram {
	if len(packed) == 0 {
		return nil
	}
	h := &timing.Histogram{Sum: sum}
	for i := 0; i+1 < len(packed); i += 2 {
		if bucket, n := packed[i], packed[i+1]; bucket < timing.Buckets {
			h.Buckets[bucket] += n
			h.Count += n
		}
	}
	return h
}

// partName names a protocol, a type or a queue.
type partName struct{ protocol, typ, namespace, queue string }

// partsSlot is a slot.
type partsSlot struct {
	At    time.Time `json:"at"` // when it began
	Parts []*part   `json:"parts"`

	index map[partName]*part
}

// of returns the part with a name, which is made if it is not there; nil if there are too many.
func (s *partsSlot) of(name partName) *part {
	if p := s.index[name]; p != nil {
		return p
	}
	if len(s.index) >= partsOpen {
		return nil
	}
	if s.index == nil {
		s.index = make(map[partName]*part)
	}
	p := &part{Protocol: name.protocol, Type: name.typ, Namespace: name.namespace, Queue: name.queue}
	s.index[name] = p
	s.Parts = append(s.Parts, p)
	return p
}

// merge adds the parts of another slot.
func (s *partsSlot) merge(o *partsSlot) {
	for _, p := range o.Parts {
		p.unpack()
		if to := s.of(partName{p.Protocol, p.Type, p.Namespace, p.Queue}); to != nil {
			to.add(&tally{tallyPushed: p.Pushed, tallyFetched: p.Fetched, tallyAcked: p.Acked, tallyFailed: p.Failed}, p.wait)
			addTimes(&to.run, p.run)
		}
	}
}

// busiest returns the protocols, and the types and queues with the most traffic, the busiest first.
func (s *partsSlot) busiest(most int) (protocols, types, queues []*part) {
	for _, p := range s.Parts {
		switch {
		case p.Protocol != "":
			protocols = append(protocols, p)
		case p.Type != "":
			types = append(types, p)
		default:
			queues = append(queues, p)
		}
	}
	byWork := func(a, b *part) int {
		return cmp.Or(cmp.Compare(b.sum(), a.sum()), strings.Compare(a.Protocol, b.Protocol), strings.Compare(a.Type, b.Type),
			strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Queue, b.Queue))
	}
	for _, list := range [][]*part{protocols, types, queues} {
		slices.SortFunc(list, byWork)
	}
	return protocols, types[:min(len(types), most)], queues[:min(len(queues), most)]
}

// partsHistory collects the slots that are not over yet. It is owned by the sampler's goroutine.
type partsHistory struct {
	engine *engine.Engine
	open   [len(periods)]*partsSlot
}

// write is the command that keeps a slot.
func (s *partsSlot) write(p *resolution) job.Command {
	protocols, types, queues := s.busiest(partsKept)
	kept := partsSlot{At: s.At, Parts: slices.Concat(protocols, types, queues)}
	for _, part := range kept.Parts {
		part.pack()
	}
	value, err := json.Marshal(kept)
	if err != nil {
		panic("admin: a slot of the history cannot be written: " + err.Error()) // it holds texts, a time and numbers
	}
	return &job.SetValue{Space: partsSpace, Name: p.slot(s.At), Value: value}
}

// load takes up the slots that a server that stopped a moment ago has left.
func (h *partsHistory) load(now time.Time) error {
	for i := range periods {
		value, ok, err := h.engine.Value(partsSpace, periods[i].slot(now))
		if err != nil {
			return err
		}
		var s partsSlot
		if ok && json.Unmarshal(value, &s) == nil && s.At.Equal(periods[i].begin(now)) {
			h.open[i] = &partsSlot{At: s.At}
			h.open[i].merge(&s)
		}
	}
	return nil
}

// add counts a sample, and returns the commands that keep the slots that are over. Before one ends, last adds to all
// what is not counted with every sample.
func (h *partsHistory) add(now time.Time, count, last func(*partsSlot)) []job.Command {
	if s := h.open[0]; s != nil && !s.At.Equal(periods[0].begin(now)) { // it is the shortest
		h.each(last)
	}
	var over []job.Command
	for i := range periods {
		begin := periods[i].begin(now)
		if s := h.open[i]; s != nil && !s.At.Equal(begin) {
			over = append(over, s.write(&periods[i]))
			h.open[i] = nil
		}
		if h.open[i] == nil {
			h.open[i] = &partsSlot{At: begin}
		}
		count(h.open[i])
	}
	return over
}

// each visits the slots that are not over.
func (h *partsHistory) each(visit func(*partsSlot)) {
	for _, s := range h.open {
		if s != nil {
			visit(s)
		}
	}
}

// flush returns the commands that keep the slots that are not over.
func (h *partsHistory) flush() []job.Command {
	var all []job.Command
	for i := range periods {
		if h.open[i] != nil {
			all = append(all, h.open[i].write(&periods[i]))
		}
	}
	return all
}

// Parts is what happened lately, by protocol and by queue, the busiest first.
type Parts struct {
	Period    string  `json:"period"`
	Seconds   float64 `json:"seconds"` // that are told about, as far as the server ran
	Protocols []Part  `json:"protocols"`
	Queues    []Part  `json:"queues"`
}

// Part is what happened to a protocol or a queue. Through a protocol, a command that pushes several jobs at once counts
// as one.
type Part struct {
	Protocol  string `json:"protocol,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"` // of a queue
	Pushed    uint64 `json:"pushed"`
	Fetched   uint64 `json:"fetched"`
	Acked     uint64 `json:"acked"`
	Failed    uint64 `json:"failed"`
	Wait      *Wait  `json:"wait,omitempty"`
}

// Parts returns what happened in the last "hour", "day" or "month". The slot that is not over is not in it. A queue is
// in it as far as it was among the busiest of a slot.
func (s *Service) Parts(name string) (Parts, error) {
	i := slices.IndexFunc(periods[:], func(p resolution) bool { return p.name == name })
	if i < 0 {
		return Parts{}, api.Invalid("period: %q is none of hour, day and month", name)
	}
	out := Parts{Period: name, Protocols: []Part{}, Queues: []Part{}}
	var sum partsSlot
	if err := s.eachSlot(&periods[i], func(slot *partsSlot) {
		out.Seconds += periods[i].step.Seconds()
		sum.merge(slot)
	}); err != nil {
		return out, err
	}
	protocols, _, queues := sum.busiest(partsKept)
	for _, p := range protocols {
		out.Protocols = append(out.Protocols, p.shown())
	}
	for _, p := range queues {
		out.Queues = append(out.Queues, p.shown())
	}
	return out, nil
}

// eachSlot visits the slots of a period that are over, in any order.
func (s *Service) eachSlot(p *resolution, visit func(*partsSlot)) error {
	values, err := s.engine.Values(partsSpace, p.name+"/", int(p.slots))
	if err != nil {
		return api.Refusal(err)
	}
	now := s.opts.Now()
	oldest := now.Add(-p.step * time.Duration(p.slots))
	for _, v := range values {
		var slot partsSlot
		if strings.HasPrefix(v.Name, p.name+"/") && json.Unmarshal(v.Value, &slot) == nil && slot.At.After(oldest) && slot.At.Before(p.begin(now)) {
			visit(&slot)
		}
	}
	return nil
}

// QueueHistory returns what happened in a queue in the last "hour", "day" or "month", the oldest slot first. A slot
// tells of it as far as it was among the busiest then, and shows nothing otherwise.
func (s *Service) QueueHistory(namespace, queue, name string) (History, error) {
	return s.partHistory(partName{namespace: namespace, queue: queue}, name)
}

// partHistory returns what happened to a part in a period, the oldest slot first.
func (s *Service) partHistory(of partName, name string) (History, error) {
	i := slices.IndexFunc(periods[:], func(p resolution) bool { return p.name == name })
	if i < 0 {
		return History{}, api.Invalid("period: %q is none of hour, day and month", name)
	}
	out := History{Resolution: name, Seconds: periods[i].step.Seconds(), Points: []Point{}}
	err := s.eachSlot(&periods[i], func(slot *partsSlot) {
		p := Point{At: slot.At}
		for _, part := range slot.Parts {
			if of == (partName{part.Protocol, part.Type, part.Namespace, part.Queue}) {
				part.unpack()
				p.Pushed, p.Fetched, p.Acked, p.Failed = part.Pushed, part.Fetched, part.Acked, part.Failed
				p.Wait, p.Run = waitOf(part.wait), waitOf(part.run)
			}
		}
		out.Points = append(out.Points, p)
	})
	slices.SortFunc(out.Points, func(a, b Point) int { return a.At.Compare(b.At) })
	return out, err
}

func (p *part) shown() Part {
	return Part{
		Protocol: p.Protocol, Namespace: p.Namespace, Name: p.Queue, Pushed: p.Pushed, Fetched: p.Fetched, Acked: p.Acked, Failed: p.Failed,
		Wait: waitOf(p.wait),
	}
}

func (c *call) getParts() error { return c.Result(c.Parts(cmp.Or(c.query("period"), periods[0].name))) }
