package dialecttest

import (
	"bufio"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tinylib/msgp/msgp"

	"millrace/internal/dialect"
	"millrace/internal/dialect/tarantool"
	"millrace/internal/dialect/tarantool/tarantooltest"
)

// Tarantool drives today's queue API over IPROTO. A body is a string.
func Tarantool() Driver {
	call := func(queue, method string, args []byte) []byte {
		return tarantooltest.CallPacket(tarantooltest.TypeCall, 1, "queue.tube."+queue+":"+method, 1, args)
	}
	return Driver{
		Name: "tarantool",
		New: func(s Settings) dialect.Dialect {
			return tarantool.New(tarantool.Options{
				Options:   dialect.Options{Engine: s.Engine, Namespace: s.Namespace, WriteTimeout: s.WriteTimeout},
				MaxPacket: s.MaxCommand,
			})
		},
		Client: func(conn net.Conn) (Client, error) {
			c, err := newTarantool(conn)
			return tarantoolClient{c, map[string]bool{}}, err
		},
		Hello: func(conn net.Conn) (*bufio.Reader, error) {
			c, err := newTarantool(conn)
			if err != nil {
				return nil, err
			}
			return c.Reader(), nil
		},
		Push: func(queue, body string) []byte { return call(queue, "put", tarantoolData(body)) },
		Fetch: func(queue string, wait time.Duration) []byte {
			return call(queue, "take", msgp.AppendFloat64(nil, wait.Seconds()))
		},
		ReadReply: func(r *bufio.Reader) (bool, error) {
			p, err := tarantooltest.ReadReply(r)
			if err != nil || p.Err() != nil {
				return false, err
			}
			_, ok, err := tarantooltest.ParseTask(p.Data())
			return ok, err
		},
		AnyBytes:  true,
		Abilities: Abilities{Low: true, Delay: true, TTL: true, Trace: true},
		Alone:     true,
	}
}

// tarantoolData is a body as a connector sends it: a string if it is text.
func tarantoolData(body string) []byte {
	if utf8.ValidString(body) {
		return msgp.AppendString(nil, body)
	}
	return msgp.AppendBytes(nil, []byte(body))
}

// newTarantool returns a client for which the tubes of the tests are there.
func newTarantool(conn net.Conn) (*tarantooltest.Client, error) {
	c, err := tarantooltest.New(conn)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{queue, "other"} {
		if err := c.CreateTube(name, "fifottl"); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// tarantoolClient creates the tubes that it is asked for.
type tarantoolClient struct {
	*tarantooltest.Client
	tubes map[string]bool
}

func (c tarantoolClient) tube(name string) error {
	if c.tubes[name] {
		return nil
	}
	c.tubes[name] = true
	return c.CreateTube(name, "fifottl")
}

func (c tarantoolClient) Push(queue, body string) error { return c.PushWith(queue, body, Wishes{}) }

func (c tarantoolClient) PushWith(queue, body string, w Wishes) error {
	if err := c.tube(queue); err != nil {
		return err
	}
	options := msgp.AppendMapHeader(tarantoolData(body), 4)
	options = msgp.AppendInt(msgp.AppendString(options, "pri"), max(0, -w.Level))
	options = msgp.AppendFloat64(msgp.AppendString(options, "delay"), w.Delay.Seconds())
	options = msgp.AppendString(msgp.AppendString(options, "traceparent"), w.Trace)
	options = msgp.AppendString(options, "ttl")
	if w.TTL > 0 {
		options = msgp.AppendFloat64(options, w.TTL.Seconds())
	} else {
		options = msgp.AppendNil(options)
	}
	_, err := c.CallRaw("queue.tube."+queue+":put", options)
	return err
}

func (c tarantoolClient) Fetch(queue string, wait time.Duration) (Task, error) {
	if err := c.tube(queue); err != nil {
		return Task{}, err
	}
	t, ok, err := c.Take(queue, wait.Seconds())
	if err != nil {
		return Task{}, err
	}
	if !ok {
		return Task{}, ErrEmpty
	}
	body, err := tarantoolBody(t.Data)
	return Task{Handle: queue + " " + strconv.FormatUint(t.ID, 10), Body: body}, err
}

// tarantoolBody is the content of a string or of binary data, and the MessagePack of
// anything else.
func tarantoolBody(data msgp.Raw) (string, error) {
	switch msgp.NextType(data) { //nolint:exhaustive // all others are shown as they are
	case msgp.BinType:
		body, _, err := msgp.ReadBytesZC(data)
		return string(body), err
	case msgp.StrType:
		body, _, err := msgp.ReadStringBytes(data)
		return body, err
	}
	return string(data), nil
}

func (tarantoolClient) FetchFail(string) error { return ErrUnable }

func (c tarantoolClient) Inspect(handle string) (string, error) {
	name, text, _ := strings.Cut(handle, " ")
	id, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return "", fmt.Errorf("handle: %w", err)
	}
	raw, err := c.CallRaw("queue.tube."+name+":peek", msgp.AppendUint64(nil, id))
	if err != nil {
		return "", err
	}
	t, ok, err := tarantooltest.ParseTask(raw)
	if err != nil || !ok || t.State != "t" {
		return "", fmt.Errorf("peek shows %+v: %w", t, err)
	}
	return tarantoolBody(t.Data)
}

// Look reads the tasks of the statistics, [{"tasks": {...}, "calls": {...}}].
func (c tarantoolClient) Look(queue string) (Sight, error) {
	if err := c.tube(queue); err != nil {
		return Sight{}, err
	}
	raw, err := c.CallRaw("queue.statistics", msgp.AppendString(nil, queue))
	if err != nil {
		return Sight{}, err
	}
	value, _, err := msgp.ReadIntfBytes(raw)
	if err != nil {
		return Sight{}, fmt.Errorf("statistics: %w", err)
	}
	list, _ := value.([]any)
	if len(list) != 1 {
		return Sight{}, fmt.Errorf("statistics of %d values", len(list))
	}
	all, _ := list[0].(map[string]any)
	tasks, _ := all["tasks"].(map[string]any)
	number := func(name string) int {
		n, err := strconv.Atoi(fmt.Sprint(tasks[name]))
		if err != nil {
			return Untold
		}
		return n
	}
	return Sight{Ready: number("ready"), Delayed: number("delayed"), Held: number("taken"), Dead: number("buried")}, nil
}

func (c tarantoolClient) Ack(handle string) error {
	name, text, _ := strings.Cut(handle, " ")
	id, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return fmt.Errorf("handle: %w", err)
	}
	return c.Client.Ack(name, id)
}
