package torture

import (
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/anishathalye/porcupine"
)

// verb is what a client asks for, or what happens to the server.
type verb uint8

const (
	doPush verb = iota
	doFetch
	doAck
	doFail
	doTouch  // Tarantool: make the lease longer
	doDelete // Workq by key, Tarantool by task id: whatever the state
	doSize
	doReleaseAll // every leased job is ready again
	doGone       // a connection has ended
	doRestart    // the server was killed and is up again
)

var verbNames = [...]string{"push", "fetch", "ack", "fail", "touch", "delete", "size", "release all", "gone", "restart"}

// input is one operation of a history.
type input struct {
	verb  verb
	proto proto
	conn  int // the connection, unlike all others of the history
	job   int // for all verbs about one job
	// origin is the protocol that pushed the job.
	origin proto
	// open: the answer was cut off.
	open bool
	// soft: the lease that a fetch gives may be lost, because the server will be killed.
	soft bool
	// after are jobs that were pushed before this one at the same time, as the order in
	// which they were first fetched tells. It follows from everything else, but only
	// when the search has gone a long way in a wrong direction.
	after []int
}

// output is what the client was told.
type output struct {
	ok    bool // the server said yes; for a fetch that there was a job
	job   int
	ready int // size
	held  int // size, if it is told
}

// place is a job in the model. What is ready is taken in the order of places; a
// leased job keeps its place for when it comes back.
type place struct {
	job    int
	origin proto
	// conn holds it; zero: nobody. Whether it does so exclusively follows from by.
	conn int
	by   proto
	// soft: the lease may not be on disk yet. But for Faktory it is given out with the
	// commit of the job's push, not with its own.
	soft bool
	// unread: the fetch that gave it out was never answered.
	unread bool
}

// queueState is a state of the model. It is never changed: steps make new ones.
type queueState struct {
	places []place
	done   []int // kept with a result, in order
	pushed []bool
	key    string
	hash   uint64
}

// finished completes a new state.
func (s queueState) finished() queueState {
	b := make([]byte, 0, 6*len(s.places)+2*len(s.done)+2)
	for _, p := range s.places {
		flags := byte(p.by) << 2
		if p.soft {
			flags |= 1
		}
		if p.unread {
			flags |= 2
		}
		b = append(b, byte(p.job), byte(p.job>>8), byte(p.conn), byte(p.conn>>8), flags)
	}
	b = append(b, 0xff, 0xff)
	for _, j := range s.done {
		b = append(b, byte(j), byte(j>>8))
	}
	h := fnv.New64a()
	_, _ = h.Write(b) // never fails
	s.key, s.hash = string(b), h.Sum64()
	return s
}

func (s queueState) clone() queueState {
	return queueState{places: slices.Clone(s.places), done: slices.Clone(s.done), pushed: s.pushed}
}

// find returns where a job is, -1 if it is not there.
func (s queueState) find(job int) int {
	return slices.IndexFunc(s.places, func(p place) bool { return p.job == job })
}

// first returns the first ready job, -1 if there is none.
func (s queueState) first() int {
	return slices.IndexFunc(s.places, func(p place) bool { return p.conn == 0 })
}

// free ends the lease at i; the job keeps its place.
func (s queueState) free(i int) {
	s.places[i].conn, s.places[i].by, s.places[i].soft, s.places[i].unread = 0, 0, false, false
}

// firm notes that everything before an operation is on disk, because its answer says
// that it is there itself.
func (s queueState) firm(in input) {
	if in.open {
		return
	}
	for i := range s.places {
		s.places[i].soft = false
	}
}

// without returns the state without the job at i.
func (s queueState) without(i int) queueState {
	out := s.clone()
	out.places = slices.Delete(out.places, i, i+1)
	return out
}

// acked returns the state after the success of the job at i: gone, or kept if it
// came through Workq.
func (s queueState) acked(i int) queueState {
	out := s.without(i)
	if s.places[i].origin == workq {
		at, _ := slices.BinarySearch(out.done, s.places[i].job)
		out.done = slices.Insert(out.done, at, s.places[i].job)
	}
	return out
}

// failed returns the state after a failure of the job at i, as its push wanted it:
// jobs of Masenko and Faktory are pushed without retries here, those of Workq,
// Tarantool and beanstalkd keep their place, those of LMSTFY go to the end.
func (s queueState) failed(i int) queueState {
	switch s.places[i].origin {
	case masenko, faktory:
		return s.without(i)
	case lmstfy:
		out := s.without(i)
		p := s.places[i]
		out.places = append(out.places, place{job: p.job, origin: p.origin})
		return out
	case workq, tarantool, beanstalkd, rest, protoCount:
	}
	out := s.clone()
	out.free(i)
	return out
}

// settle returns whether the client may settle the job, and whether the server says
// yes even if it may not.
func (s queueState) settle(in input) (i int, may, yes bool) {
	i = s.find(in.job)
	exclusive := i >= 0 && s.places[i].conn != 0 && s.places[i].by.connected()
	leased := i >= 0 && s.places[i].conn != 0
	switch in.proto {
	case masenko, tarantool:
		may = leased && s.places[i].conn == in.conn
	case beanstalkd: // it deletes also what nobody has
		may = leased && s.places[i].conn == in.conn || i >= 0 && !leased && in.verb == doAck
	case workq:
		may = i >= 0 && !exclusive
	case faktory:
		may = leased && !exclusive
		yes = in.verb == doAck && !exclusive
	case lmstfy:
		may = i >= 0 && !exclusive
		yes = true
	case rest, protoCount:
	}
	return i, may, may || yes
}

// step returns the states that may follow if the operation has this output. An open
// one may also have had no effect, and whatever output.
func (s queueState) step(in input, out output) []queueState {
	if !in.open {
		return s.effect(in, out)
	}
	next := []queueState{s}
	switch in.verb {
	case doFetch:
		if i := s.first(); i >= 0 {
			after := s.clone()
			after.places[i].conn, after.places[i].by, after.places[i].soft, after.places[i].unread = in.conn,
				in.proto, in.soft, true
			next = append(next, after)
		}
	case doPush, doAck, doFail, doDelete, doReleaseAll:
		next = append(next, s.effect(in, output{ok: true})...)
	case doTouch, doSize, doGone, doRestart:
	}
	return next
}

// effect returns the states after an operation that was answered, none if that
// answer was impossible.
func (s queueState) effect(in input, out output) []queueState {
	switch in.verb {
	case doPush:
		return s.push(in, out)
	case doFetch:
		return s.fetch(in, out)
	case doAck, doFail:
		return s.settled(in, out)
	case doTouch:
		i := s.find(in.job)
		return when(out.ok == (i >= 0 && s.places[i].conn == in.conn), s)
	case doDelete:
		return s.deleted(in, out)
	case doSize:
		ready := 0
		for _, p := range s.places {
			if p.conn == 0 {
				ready++
			}
		}
		return when(out.ready == ready && (in.proto != masenko && in.proto != beanstalkd ||
			out.held == len(s.places)-ready), s)
	case doReleaseAll:
		after := s.clone()
		for i := range after.places {
			after.free(i)
		}
		return when(out.ok, after)
	case doGone:
		return s.gone(in)
	case doRestart:
		if !out.ok { // perhaps
			return append(s.restarted(), s)
		}
		return s.restarted()
	}
	return nil
}

// when returns a state if a condition holds.
func when(ok bool, s queueState) []queueState {
	if !ok {
		return nil
	}
	return []queueState{s}
}

func (s queueState) push(in input, out output) []queueState {
	if !out.ok || slices.ContainsFunc(in.after, func(job int) bool { return job >= len(s.pushed) || !s.pushed[job] }) {
		return nil
	}
	after := s.clone()
	after.firm(in)
	after.places = append(after.places, place{job: in.job, origin: in.origin})
	after.pushed = append(slices.Clone(s.pushed), make([]bool, max(0, in.job+1-len(s.pushed)))...)
	after.pushed[in.job] = true
	return []queueState{after}
}

func (s queueState) fetch(in input, out output) []queueState {
	i := s.first()
	if !out.ok {
		return when(i < 0, s)
	}
	if i < 0 || s.places[i].job != out.job {
		return nil
	}
	after := s.clone()
	after.places[i].conn, after.places[i].by, after.places[i].soft = in.conn, in.proto, in.soft && in.proto != faktory
	return []queueState{after}
}

func (s queueState) settled(in input, out output) []queueState {
	i, may, yes := s.settle(in)
	if out.ok != yes {
		return nil
	}
	if !may {
		return []queueState{s}
	}
	after := s.acked
	if in.proto == beanstalkd && s.places[i].conn == 0 {
		after = s.without
	}
	if in.verb == doFail {
		after = s.failed
		if in.proto == tarantool || in.proto == beanstalkd {
			after = func(i int) queueState { // it has no failure, only a release
				out := s.clone()
				out.free(i)
				return out
			}
		}
	}
	next := after(i)
	next.firm(in)
	return []queueState{next}
}

func (s queueState) deleted(in input, out output) []queueState {
	if i := s.find(in.job); i >= 0 {
		after := s.without(i)
		after.firm(in)
		return when(out.ok, after)
	}
	if i, kept := slices.BinarySearch(s.done, in.job); kept {
		after := s.clone()
		after.done = slices.Delete(after.done, i, i+1)
		after.firm(in)
		return when(out.ok, after)
	}
	return when(!out.ok, s)
}

// gone ends a connection. Its leases end with it in Masenko, as failures, and in
// Tarantool and beanstalkd; and what was given out in an answer that nobody has read may have been
// taken back. A client of Masenko holds one job at a time here, so that the order of
// failures does not matter.
func (s queueState) gone(in input) []queueState {
	next := []queueState{s}
	for i, p := range slices.Backward(s.places) { // from the last on, because places may go
		if p.conn != in.conn {
			continue
		}
		var after []queueState
		for _, n := range next {
			back := n.clone()
			back.free(i)
			switch {
			case p.by == tarantool, p.by == beanstalkd:
				after = append(after, back)
			case p.by == masenko && p.unread:
				after = append(after, back, n.failed(i))
			case p.by == masenko:
				after = append(after, n.failed(i))
			case p.unread:
				after = append(after, back, n)
			default:
				after = append(after, n)
			}
		}
		next = after
	}
	return next
}

// restarted is the server after a kill: leases of connections have ended, and those
// that were not on disk may be lost.
func (s queueState) restarted() []queueState {
	base := s.clone()
	next := []queueState{base}
	for i, p := range s.places {
		switch {
		case p.conn == 0:
		case p.by.connected():
			for _, n := range next {
				n.free(i)
			}
		case p.soft:
			for _, n := range next {
				lost := n.clone()
				lost.free(i)
				n.places[i].soft = false
				next = append(next, lost)
			}
		}
	}
	return next
}

// queueModel is the model of one queue that porcupine checks histories against.
func queueModel() porcupine.Model {
	model := porcupine.NondeterministicModel{
		Init: func() []any { return []any{queueState{}.finished()} },
		Step: func(state, in, out any) []any {
			next := state.(queueState).step(in.(input), out.(output))
			states := make([]any, len(next))
			for i, n := range next {
				states[i] = n.finished()
			}
			return states
		},
		Equal: func(a, b any) bool { return a.(queueState).key == b.(queueState).key },
		Hash:  func(s any) uint64 { return s.(queueState).hash },
		DescribeOperation: func(in, out any) string {
			return describe(in.(input), out.(output))
		},
	}
	return model.ToModel()
}

func describe(in input, out output) string {
	text := fmt.Sprintf("%v#%d %s", in.proto, in.conn, verbNames[in.verb])
	switch in.verb {
	case doPush, doAck, doFail, doTouch, doDelete:
		text += fmt.Sprintf(" %d(%v)", in.job, in.origin)
	case doFetch, doSize, doReleaseAll, doGone, doRestart:
	}
	switch {
	case in.open:
		return text + " -> ?"
	case in.verb == doFetch && out.ok:
		return fmt.Sprintf("%s -> %d", text, out.job)
	case in.verb == doSize:
		return fmt.Sprintf("%s -> %d ready, %d held", text, out.ready, out.held)
	}
	return fmt.Sprintf("%s -> %v", text, out.ok)
}
