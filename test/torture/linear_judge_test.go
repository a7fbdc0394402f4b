package torture

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/anishathalye/porcupine"
)

// tell writes a history down, in the order of its calls.
func tell(ops []porcupine.Operation) string {
	ops = slices.Clone(ops)
	slices.SortStableFunc(ops, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	var b strings.Builder
	for _, o := range ops {
		fmt.Fprintf(&b, "%9d %9d %s\n", o.Call/1000, o.Return/1000, describe(o.Input.(input), o.Output.(output)))
	}
	return b.String()
}

// stuck tells where the search came furthest: the last operations that it could
// put in an order, and those that it could not go on with.
func stuck(ops []porcupine.Operation, info porcupine.LinearizationInfo) string {
	var best []porcupine.Operation
	for _, partition := range info.PartialLinearizationsOperations() {
		for _, p := range partition {
			if len(p) > len(best) {
				best = p
			}
		}
	}
	placed := make(map[string]int)
	for _, o := range best {
		placed[fmt.Sprint(o)]++
	}
	var left []porcupine.Operation
	end := int64(1<<63 - 1) // nothing that was called later can come next
	for _, o := range ops {
		if placed[fmt.Sprint(o)] > 0 {
			placed[fmt.Sprint(o)]--
			continue
		}
		left = append(left, o)
		end = min(end, o.Return)
	}
	left = slices.DeleteFunc(left, func(o porcupine.Operation) bool { return o.Call > end })
	state := []queueState{queueState{}.finished()}
	for _, o := range best {
		var next []queueState
		for _, s := range state {
			next = append(next, s.step(o.Input.(input), o.Output.(output))...)
		}
		state = next
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d can be explained, the last of them:\n", len(best), len(ops))
	for _, o := range best[max(0, len(best)-40):] {
		fmt.Fprintf(&b, "%9d %9d %s\n", o.Call/1000, o.Return/1000, describe(o.Input.(input), o.Output.(output)))
	}
	fmt.Fprintf(&b, "then the state is one of %d, such as %+v, and none of these follows:\n%s", len(state),
		state[0].places, tell(left))
	return b.String()
}

// script is a history in which nothing happens at the same time, unless it is open.
type script []porcupine.Operation

func (s *script) add(in input, out output) *script {
	at := int64(2 * len(*s))
	*s = append(*s, porcupine.Operation{ClientId: in.conn, Input: in, Output: out, Call: at, Return: at + 1})
	return s
}

func (s *script) push(p proto, job int) *script {
	return s.add(input{verb: doPush, proto: p, conn: 1, job: job, origin: p}, output{ok: true})
}

func (s *script) fetch(p proto, conn, job int) *script {
	return s.add(input{verb: doFetch, proto: p, conn: conn, soft: true}, output{ok: job > 0, job: job})
}

func (s *script) settle(v verb, p proto, conn, job int, origin proto, ok bool) *script {
	return s.add(input{verb: v, proto: p, conn: conn, job: job, origin: origin}, output{ok: ok})
}

func (s *script) size(ready int) *script {
	return s.add(input{verb: doSize, proto: lmstfy, conn: 9}, output{ok: true, ready: ready})
}

func (s *script) restart() *script { return s.add(input{verb: doRestart}, output{ok: true}) }

// perhaps is a restart that may not have been one.
func (s *script) perhaps() *script { return s.add(input{verb: doRestart}, output{}) }

// until lets the last operation be open and return at the end.
func (s *script) until() *script {
	last := &(*s)[len(*s)-1]
	in := last.Input.(input)
	in.open = true
	last.Input, last.Return = in, 1<<40
	return s
}

// TestModel shows that the model accepts what is right, and that it would convict.
func TestModel(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		s    *script
		want bool
	}{
		{"in order", new(script).push(masenko, 1).push(workq, 2).fetch(lmstfy, 1, 1).fetch(faktory, 2,
			2).fetch(masenko, 3, 0), true},
		{"out of order", new(script).push(masenko, 1).push(workq, 2).fetch(lmstfy, 1, 2), false},
		{"out of nothing", new(script).push(masenko, 1).fetch(lmstfy, 1, 2), false},
		{"empty although there is one", new(script).push(masenko, 1).fetch(lmstfy, 1, 0), false},
		{"in two hands", new(script).push(masenko, 1).fetch(masenko, 1, 1).fetch(masenko, 2, 1), false},
		{"back after its ack", new(script).push(masenko, 1).fetch(workq, 1, 1).settle(doAck, workq, 1, 1, masenko,
			true).fetch(masenko, 2, 1), false},
		{"lost", new(script).push(masenko, 1).push(masenko, 2).size(1), false},
		{"ack of a stranger", new(script).push(workq, 1).fetch(masenko, 1, 1).settle(doAck, tarantool, 2, 1,
			workq, true), false},
		{"refused to its holder", new(script).push(workq, 1).fetch(masenko, 1, 1).settle(doAck, masenko, 1, 1,
			workq, false), false},
		{
			"released to its old place",
			new(script).push(tarantool, 1).push(tarantool, 2).fetch(tarantool, 1, 1).settle(doFail, tarantool, 1, 1,
				tarantool, true).fetch(masenko, 2, 1), true,
		},
		{
			"released to the end",
			new(script).push(tarantool, 1).push(tarantool, 2).fetch(tarantool, 1, 1).settle(doFail, tarantool, 1, 1,
				tarantool, true).fetch(masenko, 2, 2), false,
		},
		{
			"failed to the end",
			new(script).push(lmstfy, 1).push(lmstfy, 2).fetch(workq, 1, 1).settle(doFail, workq, 1, 1, lmstfy,
				true).fetch(masenko, 2, 2), true,
		},
		{"deleted twice", new(script).push(workq, 1).settle(doDelete, workq, 1, 1, workq, true).settle(doDelete, workq,
			1, 1, workq, true), false},
		{
			"kept with its result until it is deleted",
			new(script).push(workq, 1).fetch(workq, 1, 1).settle(doAck, workq, 1, 1, workq,
				true).size(0).settle(doDelete, workq, 1, 1, workq, true), true,
		},
		{"a lease over a restart", new(script).push(faktory, 1).fetch(faktory, 1, 1).push(faktory,
			2).restart().fetch(masenko, 2, 2), true},
		{"a lease forgotten by a restart", new(script).push(faktory, 1).fetch(faktory, 1, 1).push(faktory,
			2).restart().fetch(masenko, 2, 1), false},
		{"a lease that was not on disk yet", new(script).push(faktory, 1).push(faktory, 2).fetch(workq, 1,
			1).restart().fetch(masenko, 2, 1), true},
		{
			"a reservation that was not on disk yet",
			new(script).push(faktory, 1).push(faktory, 2).fetch(faktory, 1, 1).restart().fetch(masenko, 2, 1), false,
		},
		{
			"a connection's lease ends with a restart",
			new(script).push(faktory, 1).fetch(masenko, 1, 1).push(faktory, 2).restart().fetch(masenko, 2, 1), true,
		},
		{"a connection's lease over a restart", new(script).push(faktory, 1).fetch(masenko, 1, 1).push(faktory,
			2).restart().fetch(masenko, 2, 2), false},
		{
			"a lease ended by what may have been a restart",
			new(script).push(faktory, 1).fetch(masenko, 1, 1).push(faktory, 2).perhaps().fetch(masenko, 2, 1), true,
		},
		{
			"a lease over what may have been none",
			new(script).push(faktory, 1).fetch(masenko, 1, 1).push(faktory, 2).perhaps().fetch(masenko, 2, 2), true,
		},
		{"lost by what may have been a restart", new(script).push(faktory, 1).perhaps().fetch(masenko, 2, 0), false},
		{"lost by a restart", new(script).push(faktory, 1).restart().fetch(masenko, 2, 0), false},
		{"open, and it was done", new(script).push(masenko, 1).until().fetch(workq, 1, 1), true},
		{
			"open, and it was done later", new(script).push(masenko, 1).until().fetch(workq, 1, 0).fetch(workq, 1, 1),
			true,
		},
		{"open, and it was not done", new(script).push(masenko, 1).until().fetch(workq, 1, 0).fetch(workq, 1, 0), true},
		{
			"open, and it was done twice", new(script).push(masenko, 1).until().fetch(workq, 1, 1).fetch(workq, 1, 1),
			false,
		},
		{"an open fetch has it", new(script).push(masenko, 1).fetch(workq, 1, 1).until().fetch(workq, 2, 0), true},
		{
			"touched by who does not hold it",
			new(script).push(tarantool, 1).fetch(tarantool, 1, 1).settle(doTouch, tarantool, 2, 1, tarantool, true),
			false,
		},
		{
			"an open ack, and it is back", // it had no effect, and then the lease was released
			new(script).push(tarantool, 1).fetch(tarantool, 1, 1).settle(doAck, tarantool, 1, 1,
				tarantool, true).until().
				add(input{verb: doGone, proto: tarantool, conn: 1}, output{ok: true}).fetch(tarantool, 2, 1), true,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := porcupine.CheckOperations(queueModel(), *tt.s); got != tt.want {
				t.Errorf("linearizable: %v, want %v\n%s", got, tt.want, tell(*tt.s))
			}
		})
	}
}
