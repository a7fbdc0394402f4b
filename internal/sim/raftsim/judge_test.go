package raftsim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"
)

// What became of a job.
type fate uint8

const (
	absent fate = iota
	present
	over
)

// register is a value, or none.
type register struct {
	has   bool
	value string
}

// registers says what values may be seen to do.
var registers = porcupine.Model{
	Init: func() any { return register{} },
	Step: func(state, in, _ any) (bool, any) {
		r, o := state.(register), in.(*op)
		switch o.kind {
		case opSet:
			return true, register{true, o.value}
		case opSetAbsent:
			if o.known && o.found == r.has {
				return false, r
			}
			if !r.has {
				r = register{true, o.value}
			}
			return true, r
		case opDrop:
			return !o.known || o.found == r.has, register{}
		case opRead:
			return o.found == r.has && o.got == r.value, r
		case opPush, opFetch, opFirm, opAck, opDelete, opGet: // are of jobs
		}
		return false, r
	},
	DescribeOperation: func(in, _ any) string { return in.(*op).String() },
}

// jobs says what a job may be seen to do.
var jobs = porcupine.Model{
	Init: func() any { return absent },
	Step: func(state, in, _ any) (bool, any) {
		f, o := state.(fate), in.(*op)
		switch o.kind {
		case opPush:
			return f == absent && (!o.known || o.found), present
		case opAck, opDelete:
			if o.known && o.found != (f == present) {
				return false, f
			}
			if f == present {
				f = over
			}
			return true, f
		case opGet, opFetch, opFirm:
			return o.found == (f == present), f
		case opSet, opSetAbsent, opDrop, opRead: // are of values
		}
		return false, f
	},
	DescribeOperation: func(in, _ any) string { return in.(*op).String() },
}

// judge looks at everything that clients were told.
func judge(ops []*op) error {
	values, fates := map[string][]*op{}, map[string][]*op{}
	queues := map[string][]*op{}
	for _, o := range ops {
		switch o.kind {
		case opSet, opSetAbsent, opDrop:
			values[o.key] = append(values[o.key], o)
		case opRead:
			if o.known {
				values[o.key] = append(values[o.key], o)
			}
		case opPush:
			fates[o.key] = append(fates[o.key], o)
			queues[o.queue] = append(queues[o.queue], o)
		case opAck, opDelete:
			fates[o.key] = append(fates[o.key], o)
		case opGet:
			if o.known {
				fates[o.key] = append(fates[o.key], o)
			}
		case opFetch, opFirm:
			queues[o.queue] = append(queues[o.queue], o)
			if o.got != "" {
				fates[o.got] = append(fates[o.got], o)
			}
		}
	}
	for _, list := range queues {
		if err := judgeQueue(list); err != nil {
			return err
		}
	}
	if err := linear("R-3, R-7: value", registers, values); err != nil {
		return err
	}
	return linear("R-3, R-6, R-7: job", jobs, fates)
}

// linear looks whether each history could have happened one thing after the other.
func linear(what string, m porcupine.Model, histories map[string][]*op) error {
	for key, list := range histories {
		all := make([]porcupine.Operation, len(list))
		for i, o := range list {
			all[i] = porcupine.Operation{ClientId: i, Input: o, Call: o.call, Return: o.ret}
		}
		if !porcupine.CheckOperations(m, all) {
			return fmt.Errorf("%s %s cannot have done this:\n  %s", what, key, tell(list))
		}
	}
	return nil
}

func tell(list []*op) string {
	lines := make([]string, len(list))
	slices.SortFunc(list, func(a, b *op) int { return int(a.call - b.call) })
	for i, o := range list {
		lines[i] = o.String()
	}
	return strings.Join(lines, "\n  ")
}

// judgeQueue looks at what a queue has given: a job that was firmly leased to nobody else, and nothing only if there
// was nothing.
func judgeQueue(list []*op) error {
	for _, o := range list {
		switch {
		case !o.known || o.kind == opPush:
		case o.got == "":
			if err := judgeEmpty(o, list); err != nil {
				return err
			}
		case o.kind == opFirm:
			for _, other := range list {
				if other != o && other.got == o.got && (other.kind == opFirm || other.call > o.ret) {
					return fmt.Errorf("R-6: a job was leased firmly, and delivered again:\n  %s", tell([]*op{o, other}))
				}
			}
		}
	}
	return nil
}

// judgeEmpty asserts that every job that was pushed before may have been taken by somebody.
func judgeEmpty(o *op, list []*op) error {
	for _, p := range list {
		if p.kind != opPush || !p.known || p.ret > o.call {
			continue
		}
		if !slices.ContainsFunc(list, func(f *op) bool {
			return f.kind != opPush && f.call < o.ret && f != o && (f.got == p.key || !f.known)
		}) {
			return fmt.Errorf("R-7: nothing was found where a job was:\n  %s", tell([]*op{p, o}))
		}
	}
	return nil
}
