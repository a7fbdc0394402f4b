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
				Engine: s.Engine, Namespace: s.Namespace, MaxPacket: s.MaxCommand, WriteTimeout: s.WriteTimeout,
			})
		},
		Client: func(conn net.Conn) (Client, error) {
			c, err := newTarantool(conn)
			return tarantoolClient{c}, err
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
		AnyBytes:         true,
		ReturnsUnwritten: true,
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

type tarantoolClient struct{ *tarantooltest.Client }

func (c tarantoolClient) Push(queue, body string) error {
	_, err := c.Put(queue, tarantoolData(body))
	return err
}

func (c tarantoolClient) Fetch(queue string, wait time.Duration) (Task, error) {
	t, ok, err := c.Take(queue, wait.Seconds())
	if err != nil {
		return Task{}, err
	}
	if !ok {
		return Task{}, ErrEmpty
	}
	task := Task{Handle: queue + " " + strconv.FormatUint(t.ID, 10)}
	if msgp.NextType(t.Data) == msgp.BinType { // what is no text
		body, _, err := msgp.ReadBytesZC(t.Data)
		task.Body = string(body)
		return task, err
	}
	task.Body, _, err = msgp.ReadStringBytes(t.Data)
	return task, err
}

func (c tarantoolClient) Ack(handle string) error {
	name, text, _ := strings.Cut(handle, " ")
	id, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return fmt.Errorf("handle: %w", err)
	}
	return c.Client.Ack(name, id)
}
