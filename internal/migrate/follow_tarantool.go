package migrate

import (
	"context"
	"errors"
	"fmt"

	"github.com/tinylib/msgp/msgp"

	"millrace/internal/dialect"
	"millrace/internal/job"
)

// tarantoolFollower takes from all tubes. Tasks that it has taken are ready again when its connection ends.
type tarantoolFollower struct {
	*tarantool
	made map[string]bool // tubes that have been told
	gone []string        // ids that the source may use again
}

func followTarantool(ctx context.Context, address string) (Follower, error) {
	s, err := openTarantool(ctx, address)
	if err != nil {
		return nil, err
	}
	t, _ := s.(*tarantool)
	return &tarantoolFollower{tarantool: t, made: make(map[string]bool)}, nil
}

// tarantoolTaken is a task that was taken.
type tarantoolTaken struct {
	tube *tarantoolTube
	id   uint64
}

// Fetch takes what is there, or waits a second for one task of each tube.
func (f *tarantoolFollower) Fetch(ctx context.Context) (jobs []*dialect.Arrival, err error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	all, err := f.tubes()
	if err != nil {
		return nil, err
	}
	tubes := all[:0]
	for i := range all {
		if !all[i].known {
			continue
		}
		tubes = append(tubes, all[i])
		if a := all[i].arrival(); !f.made[a.Queue] {
			jobs = append(jobs, a)
			f.made[a.Queue] = true
		}
	}
	if len(tubes) == 0 {
		pause(ctx)
		return jobs, nil
	}
	taken, err := f.take(tubes, max(int(min(f.pages.next(), fetchMax))/len(tubes), 1), 0)
	if err == nil && len(taken)+len(jobs) == 0 {
		taken, err = f.take(tubes, 1, 1)
	}
	if err != nil {
		return nil, err
	}
	tasks, err := f.look(taken)
	return append(jobs, tasks...), err
}

// take takes some tasks of each tube, if there are any within some seconds.
func (f *tarantoolFollower) take(tubes []tarantoolTube, each int, seconds int) (taken []tarantoolTaken, err error) {
	asked := make(map[uint64]*tarantoolTube)
	first := f.sync + 1
	for i := range tubes {
		for range each {
			asked[f.call("queue.tube."+tubes[i].name+":take", msgp.AppendInt(nil, seconds))] = &tubes[i]
		}
	}
	answers, err := f.answers(first, len(asked))
	for i, rows := range answers {
		if len(rows) == 0 {
			continue
		}
		fields, _ := elements(rows[0])
		if len(fields) == 0 {
			continue // nil
		}
		id, _, err := msgp.ReadUint64Bytes(fields[0])
		if err != nil {
			return nil, errIProto
		}
		taken = append(taken, tarantoolTaken{asked[first+uint64(i)], id})
	}
	return taken, err
}

// answers sends requests and reads the answers, in the order of the requests, the first of which has a number.
func (f *tarantoolFollower) answers(first uint64, count int) ([][]msgp.Raw, error) {
	if err := f.send(); err != nil {
		return nil, err
	}
	all := make([][]msgp.Raw, count)
	var refused error
	for range count {
		sync, data, err := f.answer()
		if _, ok := errors.AsType[*iprotoError](err); ok {
			refused = err
		} else if err != nil {
			return nil, err
		}
		if i := sync - first; i < uint64(count) {
			all[i] = data
		}
	}
	return all, refused
}

// look reads the rows of tasks that were taken.
func (f *tarantoolFollower) look(taken []tarantoolTaken) (jobs []*dialect.Arrival, err error) {
	first := f.sync + 1
	for _, t := range taken {
		f.find(t.tube.space, 0, iprotoEqual, 1, msgp.AppendUint64([]byte{0x91}, t.id))
	}
	answers, err := f.answers(first, len(taken))
	if err != nil {
		return nil, fmt.Errorf("read the tasks that were taken: %w", err)
	}
	size := 0
	for i, rows := range answers {
		if len(rows) == 0 {
			continue // its time was up
		}
		a, _, err := taken[i].tube.task(rows[0])
		if err != nil {
			return nil, err
		}
		if a == nil {
			continue
		}
		a.State = job.Ready.String()
		jobs = append(jobs, a)
		size += len(a.Body)
	}
	f.pages.saw(len(jobs), size)
	return jobs, nil
}

// Settle acknowledges those that arrived, and buries the others. One whose time was up comes again, and is known.
func (f *tarantoolFollower) Settle(jobs []*dialect.Arrival, arrived []bool, _ []string) error {
	first := f.sync + 1
	var settled []*dialect.Arrival
	for i, a := range jobs {
		if !dialect.IsJob(a.State) {
			continue
		}
		verb := ":bury"
		if arrived[i] {
			verb = ":ack"
		}
		id, err := tarantoolTaskID(a)
		if err != nil {
			return err
		}
		f.call("queue.tube."+a.Queue+verb, msgp.AppendUint64(nil, id))
		settled = append(settled, a)
	}
	answers, err := f.answers(first, len(settled))
	if _, refused := errors.AsType[*iprotoError](err); err != nil && !refused {
		return err
	}
	for i, a := range settled {
		if len(answers[i]) > 0 && !tarantoolTimed[a.Type] {
			f.gone = append(f.gone, a.ID)
		}
	}
	return nil
}

// tarantoolTaskID reads the number of a task from the id of its arrival.
func tarantoolTaskID(a *dialect.Arrival) (id uint64, err error) {
	_, err = fmt.Sscanf(a.ID[len(a.Queue):], " %d ", &id)
	return id, err
}

// Gone returns the ids of tasks that were acknowledged, which may be used again.
func (f *tarantoolFollower) Gone() []string {
	gone := f.gone
	f.gone = nil
	return gone
}
