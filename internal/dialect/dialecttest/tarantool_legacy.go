package dialecttest

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/tinylib/msgp/msgp"

	"millrace/internal/dialect"
	"millrace/internal/dialect/tarantool"
	"millrace/internal/dialect/tarantool/tarantooltest"
	"millrace/internal/wire"
)

// legacyLevel is the priority of a legacy task that says none.
const legacyLevel = 127

// TarantoolLegacy drives the legacy queue API over IPROTO. A body is one string.
func TarantoolLegacy() Driver {
	call := func(procedure string, args []byte, count int) []byte {
		return tarantooltest.CallPacket(tarantooltest.TypeCall, 1, procedure, count, args)
	}
	return Driver{
		Name: "tarantool-legacy",
		New: func(s Settings) dialect.Dialect {
			return tarantool.New(tarantool.Options{
				Options:   dialect.Options{Engine: s.Engine, Namespace: s.Namespace, WriteTimeout: s.WriteTimeout},
				MaxPacket: s.MaxCommand,
			})
		},
		Client: func(conn net.Conn) (Client, error) {
			c, err := tarantooltest.New(conn)
			return legacyClient{c}, err
		},
		Hello: func(conn net.Conn) (*bufio.Reader, error) {
			c, err := tarantooltest.New(conn)
			if err != nil {
				return nil, err
			}
			return c.Reader(), nil
		},
		Push: func(queue, body string) []byte { return call("queue.put", legacyPut(queue, body, Wishes{}), 7) },
		Fetch: func(queue string, wait time.Duration) []byte {
			return call("queue.take", legacyArgs(queue, wait.Seconds()), 3)
		},
		ReadReply: func(r *bufio.Reader) (bool, error) {
			p, err := tarantooltest.ReadReply(r)
			if err != nil || p.Err() != nil {
				return false, err
			}
			rows, err := legacyRows(p.Data())
			return len(rows) > 0, err
		},
		AnyBytes:  true,
		Abilities: Abilities{High: true, Low: true, Delay: true, TTL: true},
		Alone:     true,
	}
}

// legacyArgs are space 0, a string and a number of seconds.
func legacyArgs(name string, seconds float64) []byte {
	return msgp.AppendFloat64(msgp.AppendString(msgp.AppendInt(nil, 0), name), seconds)
}

// legacyPut are the arguments of a put; a time that is nil is the default.
func legacyPut(queue, body string, w Wishes) []byte {
	args := legacyArgs(queue, w.Delay.Seconds())
	if w.TTL > 0 {
		args = msgp.AppendFloat64(args, w.TTL.Seconds())
	} else {
		args = msgp.AppendNil(args)
	}
	args = msgp.AppendInt(msgp.AppendNil(args), legacyLevel+w.Level)
	return append(args, tarantoolData(body)...)
}

// legacyRows reads the task that a call has returned, as its fields; nothing if there is none.
func legacyRows(data msgp.Raw) (fields []msgp.Raw, err error) {
	n, rest, err := msgp.ReadArrayHeaderBytes(data)
	if err != nil || n == 0 {
		return nil, err
	}
	if n, rest, err = msgp.ReadArrayHeaderBytes(rest); err != nil {
		return nil, err
	}
	for range n {
		next, err := msgp.Skip(rest)
		if err != nil {
			return nil, err
		}
		fields = append(fields, msgp.Raw(rest[:len(rest)-len(next)]))
		rest = next
	}
	return fields, nil
}

type legacyClient struct{ *tarantooltest.Client }

func (c legacyClient) Push(queue, body string) error { return c.PushWith(queue, body, Wishes{}) }

func (c legacyClient) PushWith(queue, body string, w Wishes) error {
	_, err := c.CallRaw("queue.put", legacyPut(queue, body, w))
	return err
}

// errLegacyTask is a task that is not id, tube, status and at most one field of data.
var errLegacyTask = errors.New("malformed task")

// legacyTask reads a task with the given status.
func legacyTask(data msgp.Raw, status string) (Task, error) {
	fields, err := legacyRows(data)
	if err != nil {
		return Task{}, err
	}
	if len(fields) == 0 {
		return Task{}, ErrEmpty
	}
	if len(fields) < 3 || len(fields) > 4 {
		return Task{}, fmt.Errorf("%w: %d fields", errLegacyTask, len(fields))
	}
	id, _, err := msgp.ReadStringBytes(fields[0])
	if err != nil {
		return Task{}, err
	}
	if got, _, err := msgp.ReadStringBytes(fields[2]); err != nil || got != status {
		return Task{}, fmt.Errorf("%w: status %q, want %q: %w", errLegacyTask, got, status, err)
	}
	t := Task{Handle: id}
	if len(fields) == 4 {
		t.Body = string(wire.TextOf(fields[3]))
	}
	return t, err
}

func (c legacyClient) Fetch(queue string, wait time.Duration) (Task, error) {
	raw, err := c.CallRaw("queue.take", legacyArgs(queue, wait.Seconds()))
	if err != nil {
		return Task{}, err
	}
	return legacyTask(raw, "taken")
}

func (c legacyClient) named(procedure, handle string) (msgp.Raw, error) {
	return c.CallRaw(procedure, msgp.AppendString(msgp.AppendInt(nil, 0), handle))
}

func (c legacyClient) Ack(handle string) error {
	_, err := c.named("queue.ack", handle)
	return err
}

func (legacyClient) FetchFail(string) error { return ErrUnable }

func (c legacyClient) Inspect(handle string) (string, error) {
	raw, err := c.named("queue.peek", handle)
	if err != nil {
		return "", err
	}
	t, err := legacyTask(raw, "taken")
	return t.Body, err
}

func (c legacyClient) Look(queue string) (Sight, error) {
	raw, err := c.CallRaw("queue.statistics", msgp.AppendString(msgp.AppendInt(nil, 0), queue))
	if err != nil {
		return Sight{}, err
	}
	fields, err := legacyRows(raw)
	if err != nil {
		return Sight{}, err
	}
	texts := make([]string, len(fields))
	for i, f := range fields {
		if texts[i], _, err = msgp.ReadStringBytes(f); err != nil {
			return Sight{}, fmt.Errorf("statistics: %w", err)
		}
	}
	return legacySight(queue, texts)
}

// legacySight reads names and values in turn. Of a tube that was used through these
// procedures zeros are left out, of others nothing is told.
func legacySight(queue string, texts []string) (Sight, error) {
	tasks := make(map[string]int)
	for i := 0; i+1 < len(texts); i += 2 {
		n, err := strconv.Atoi(texts[i+1])
		if err != nil {
			return Sight{}, fmt.Errorf("%s: %w", texts[i], err)
		}
		tasks[texts[i]] = n
	}
	if len(tasks) == 0 {
		return Sight{Ready: Untold, Delayed: Untold, Held: Untold, Dead: Untold}, nil
	}
	at := func(name string) int { return tasks["space0."+queue+".tasks."+name] }
	return Sight{Ready: at("ready"), Delayed: at("delayed"), Held: at("taken"), Dead: at("buried")}, nil
}

// decimal is a duration as seconds in text.
func decimal(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) }
