package dialecttest

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/tinylib/msgp/msgp"

	"millrace/internal/dialect"
	"millrace/internal/dialect/tarantool"
	"millrace/internal/dialect/tarantool/tarantooltest"
	"millrace/internal/wire"
)

// Tarantool drives today's queue API over IPROTO. A body is a string.
func Tarantool() Driver {
	call := func(queue, method string, args []byte) []byte {
		return tarantooltest.CallPacket(tarantooltest.TypeCall, 1, "queue.tube."+queue+":"+method, 1, args)
	}
	return Driver{
		Name: "tarantool",
		New: func(s Settings) dialect.Dialect {
			return tarantool.New(tarantool.Options{Options: s.Options, MaxPacket: s.MaxCommand})
		},
		Client: wired("tarantool", inspectTarantool),
		Hello: func(conn net.Conn) (*bufio.Reader, error) {
			c, err := wire.As[*wire.Tarantool](wire.New("tarantool", conn, wire.Options{}))
			if err != nil {
				return nil, err
			}
			return c.Reader(), errors.Join(c.Create(queue, "fifottl"), c.Create("other", "fifottl"))
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

func inspectTarantool(c *wire.Tarantool, queue, text string) (string, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return "", err
	}
	raw, err := c.Call(0, "queue.tube."+queue+":peek", msgp.AppendUint64(nil, n))
	if err != nil {
		return "", err
	}
	_, state, data, err := wire.ParseTask(raw)
	if err != nil || state != "t" {
		return "", fmt.Errorf("peek shows state %q: %w", state, err)
	}
	return string(wire.TextOf(data)), nil
}
