package migrate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/tinylib/msgp/msgp"

	"millrace/internal/dialect"
	"millrace/internal/job"
)

// The queue module keeps a row for each tube in the space _queue: name, number, name of the tube's space, type and
// options. In the space of a tube each task is a row that begins with its id and status. What follows depends on the
// type: when something happens next, time to live, time to run, priority and when it was put, in microseconds; the
// sub-queue; and last the data.
const (
	tarantoolSpaces      = 281 // the spaces that the user may see
	tarantoolSpaceByName = 2   // an index of them
	tarantoolQueue       = "_queue"
	tarantoolCentury     = 100 * 365 * 24 * time.Hour // what the module takes for ever, or more
)

// tarantoolTimed and tarantoolGrouped tell what tasks of the types of tubes have.
var (
	tarantoolTimed = map[string]bool{
		"fifo":       false,
		"utube":      false,
		"fifottl":    true,
		"utubettl":   true,
		"limfifottl": true,
	}
	tarantoolGrouped = map[string]bool{"utube": true, "utubettl": true}
)

// tarantool reads the queues of a running server.
type tarantool struct {
	*iproto
	pages pager
	read  uint64 // tasks, by the last Read
}

// tarantoolTube is a tube at the source.
type tarantoolTube struct {
	name, kind string
	known      bool // its type is
	spaceName  string
	space      uint64
	options    msgp.Raw
}

func openTarantool(ctx context.Context, address string) (Source, error) {
	u, ok := parseTCP(address, "3301")
	if !ok {
		return nil, fmt.Errorf("%q is not an address of Tarantool: write tcp://USER:PASSWORD@HOST:PORT", address)
	}
	password, _ := u.User.Password()
	c, err := dialIProto(ctx, u.Host, u.User.Username(), password)
	if err != nil {
		return nil, err
	}
	return &tarantool{iproto: c}, nil
}

func (t *tarantool) Protocol() string { return "tarantool" }

// Name has the server's own name, which it keeps, because ids are small numbers.
func (t *tarantool) Name() string { return "tarantool:" + t.instance }

// space finds a space by its name.
func (t *tarantool) space(name string) (uint64, error) {
	t.find(tarantoolSpaces, tarantoolSpaceByName, iprotoEqual, 1, msgp.AppendString([]byte{0x91}, name))
	rows, err := t.one()
	if err != nil {
		return 0, fmt.Errorf("look for the space %q: %w", name, err)
	}
	if len(rows) == 0 {
		return 0, fmt.Errorf("there is no space %q, or this user may not read it: "+
			"box.schema.user.grant(USER, 'read', 'space', '%s')", name, name)
	}
	fields, _ := elements(rows[0])
	if len(fields) == 0 {
		return 0, errIProto
	}
	id, _, err := msgp.ReadUint64Bytes(fields[0])
	return id, err
}

// tubes lists the tubes by their names.
func (t *tarantool) tubes() (tubes []tarantoolTube, err error) {
	space, err := t.space(tarantoolQueue)
	if err != nil {
		return nil, err
	}
	iterator, key := uint64(iprotoAll), []byte{0x90}
	for {
		t.find(space, 0, iterator, idsAtOnce, key)
		rows, err := t.one()
		if err != nil {
			return nil, fmt.Errorf("read the tubes: %w", err)
		}
		if len(rows) == 0 {
			return tubes, nil
		}
		for _, row := range rows {
			fields, _ := elements(row)
			if len(fields) < 5 {
				return nil, errIProto
			}
			tube := tarantoolTube{
				name: text(fields[0]), spaceName: text(fields[2]), kind: text(fields[3]), options: fields[4],
			}
			if _, tube.known = tarantoolTimed[tube.kind]; tube.known {
				if tube.space, err = t.space(tube.spaceName); err != nil {
					return nil, err
				}
			}
			tubes = append(tubes, tube)
		}
		iterator, key = iprotoGreater, msgp.AppendString([]byte{0x91}, tubes[len(tubes)-1].name)
	}
}

// text reads a string; anything else is empty.
func text(v msgp.Raw) string {
	s, _, _ := msgp.ReadStringBytes(v) // then it is empty
	return s
}

// Count asks how long the spaces are. A user who may only read does not learn it before everything has been read.
func (t *tarantool) Count(context.Context) (uint64, error) {
	tubes, err := t.tubes()
	if err != nil {
		return 0, err
	}
	total := uint64(0)
	for _, tube := range tubes {
		if !tube.known {
			continue
		}
		t.call("box.space."+tube.spaceName+":len", nil)
		answer, err := t.one()
		if _, refused := errors.AsType[*iprotoError](err); refused {
			return t.read, nil
		}
		if err != nil {
			return 0, fmt.Errorf("count the tasks of %q: %w", tube.name, err)
		}
		if len(answer) > 0 {
			n, _, _ := msgp.ReadUint64Bytes(answer[0]) // of a server that has no spaces it is none
			total += n
		}
	}
	return total, nil
}

// Read tells tube by tube, each by the ids of its tasks.
func (t *tarantool) Read(ctx context.Context, to Sink) error {
	tubes, err := t.tubes()
	if err != nil {
		return err
	}
	t.read = 0
	for i := range tubes {
		tube := &tubes[i]
		a := tube.arrival()
		if !tube.known {
			to.Leave(a, fmt.Sprintf("tubes of the type %q are not known here: its tasks stay behind", tube.kind))
			continue
		}
		if err := to.Take(a); err != nil {
			return err
		}
		if err := t.tasks(ctx, tube, to); err != nil {
			return err
		}
	}
	return nil
}

// arrival tells the tube itself.
func (t *tarantoolTube) arrival() *dialect.Arrival {
	return &dialect.Arrival{
		ID:    "tube " + t.name,
		Queue: t.name,
		State: dialect.StateQueue,
		Type:  t.kind,
		Body:  t.options,
	}
}

// tasks tells the tasks of a tube, some at a time.
func (t *tarantool) tasks(ctx context.Context, tube *tarantoolTube, to Sink) error {
	iterator, key := uint64(iprotoAll), []byte{0x90}
	for ctx.Err() == nil {
		t.find(tube.space, 0, iterator, uint64(t.pages.next()), key) //nolint:gosec // positive
		rows, err := t.one()
		if err != nil {
			return fmt.Errorf("read the tube %q: %w", tube.name, err)
		}
		if len(rows) == 0 {
			return nil
		}
		size := 0
		for _, row := range rows {
			size += len(row)
			a, id, err := tube.task(row)
			if err != nil {
				return err
			}
			iterator, key = iprotoGreater, msgp.AppendUint64([]byte{0x91}, id)
			if a == nil {
				continue
			}
			t.read++
			if err := to.Take(a); err != nil {
				return err
			}
		}
		t.pages.saw(len(rows), size)
	}
	return ctx.Err()
}

// tarantoolStates are the names of states. A task that is done is about to be deleted.
var tarantoolStates = map[string]job.State{"r": job.Ready, "t": job.Leased, "~": job.Scheduled, "!": job.Buried}

// task reads the row of a task; nil for one that is done.
func (t *tarantoolTube) task(row msgp.Raw) (a *dialect.Arrival, id uint64, err error) {
	fields, _ := elements(row)
	timed, grouped := tarantoolTimed[t.kind], tarantoolGrouped[t.kind]
	wrong := func() (*dialect.Arrival, uint64, error) {
		return nil, 0, fmt.Errorf("a row of the tube %q is of another form than those of the type %s", t.name, t.kind)
	}
	want := 3
	if timed {
		want += 5
	}
	if grouped {
		want++
	}
	if len(fields) != want {
		return wrong()
	}
	if id, _, err = msgp.ReadUint64Bytes(fields[0]); err != nil {
		return wrong()
	}
	a = &dialect.Arrival{Queue: t.name, Type: t.kind, Body: fields[want-1]}
	if grouped {
		a.Group = text(fields[want-2])
	}
	a.ID = t.name + " " + strconv.FormatUint(id, 10) + " "
	if !timed { // an id is used again: what else tells such tasks apart is their data
		sum := sha256.Sum256(a.Body)
		a.ID += hex.EncodeToString(sum[:8])
	} else if !tarantoolTimes(a, fields[2:7]) {
		return wrong()
	}
	state, known := tarantoolStates[text(fields[1])]
	if !known {
		return nil, id, nil
	}
	if a.State = state.String(); state != job.Scheduled {
		a.RunAt = 0
	}
	return a, id, nil
}

// tarantoolTimes reads the times of a task, and its priority.
func tarantoolTimes(a *dialect.Arrival, fields []msgp.Raw) bool {
	var n [5]uint64
	for i := range n {
		var ok bool
		if n[i], ok = whole(fields[i]); !ok {
			return false
		}
	}
	next, ttl, ttr, created := n[0], n[1], n[2], n[4]
	a.Priority = int64(min(n[3], math.MaxInt64))
	a.Created = job.Time(min(created, math.MaxInt64))
	a.RunAt = job.Time(min(max(next, 1), math.MaxInt64))
	if ttl < uint64(tarantoolCentury/time.Microsecond) {
		a.ExpireAt = max(job.Time(min(created+ttl, math.MaxInt64)), 1)
	}
	if ttr < uint64(tarantoolCentury/time.Microsecond) {
		a.TTR = time.Duration(max(ttr, 1)) * time.Microsecond
	}
	a.ID += strconv.FormatUint(created, 10)
	return true
}

// whole reads a number that is not negative. One that was added to may have a fraction.
func whole(v msgp.Raw) (uint64, bool) {
	if n, _, err := msgp.ReadUint64Bytes(v); err == nil {
		return n, true
	}
	f, _, err := msgp.ReadFloat64Bytes(v)
	return uint64(max(f, 0)), err == nil && f < math.MaxInt64
}
