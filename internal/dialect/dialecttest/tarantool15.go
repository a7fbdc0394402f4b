package dialecttest

import (
	"bufio"
	"fmt"
	"net"
	"strconv"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/dialect/tarantool"
	"millrace/internal/dialect/tarantool/tarantooltest"
)

// Tarantool15 drives the legacy queue API over the protocol of Tarantool 1.5.
func Tarantool15() Driver {
	return Driver{
		Name: "tarantool15",
		New: func(s Settings) dialect.Dialect {
			return tarantool.New(tarantool.Options{
				Options:   dialect.Options{Engine: s.Engine, Namespace: s.Namespace, WriteTimeout: s.WriteTimeout},
				MaxPacket: s.MaxCommand,
			}).Box15()
		},
		Client: func(conn net.Conn) (Client, error) { return tarantool15Client{tarantooltest.NewBox15(conn)}, nil },
		Push: func(queue, body string) []byte {
			return tarantooltest.Box15CallPacket(1, "queue.put", "0", queue, "0", "0", "0", "127", body)
		},
		Fetch: func(queue string, wait time.Duration) []byte {
			return tarantooltest.Box15CallPacket(2, "queue.take", "0", queue,
				strconv.FormatFloat(wait.Seconds(), 'f', -1, 64))
		},
		ReadReply: readTarantool15Reply,
		AnyBytes:  true,
		Abilities: Abilities{High: true, Low: true, Delay: true, TTL: true},
		Alone:     true,
	}
}

// readTarantool15Reply reads a packet; one without a row is no success.
func readTarantool15Reply(r *bufio.Reader) (bool, error) {
	reply, err := tarantooltest.ReadBox15(r)
	if err != nil {
		return false, err
	}
	rows, err := reply.Rows()
	return err == nil && len(rows) > 0, nil
}

type tarantool15Client struct{ *tarantooltest.Box15 }

func (c tarantool15Client) Push(queue, body string) error {
	_, err := c.Put(queue, body)
	return err
}

func (c tarantool15Client) PushWith(queue, body string, w Wishes) error {
	ttl := ""
	if w.TTL > 0 {
		ttl = decimal(w.TTL)
	}
	_, err := c.Call("queue.put", "0", queue, decimal(w.Delay), ttl, "", strconv.Itoa(legacyLevel+w.Level), body)
	return err
}

func (tarantool15Client) FetchFail(string) error { return ErrUnable }

func (c tarantool15Client) Inspect(handle string) (string, error) {
	rows, err := c.Call("queue.peek", "0", handle)
	if err != nil {
		return "", err
	}
	if len(rows) != 1 || len(rows[0]) != 4 || string(rows[0][2]) != "taken" {
		return "", fmt.Errorf("peek shows %q", rows)
	}
	return string(rows[0][3]), nil
}

func (c tarantool15Client) Look(queue string) (Sight, error) {
	rows, err := c.Call("queue.statistics", "0", queue)
	if err != nil || len(rows) != 1 {
		return Sight{}, fmt.Errorf("statistics have %d rows: %w", len(rows), err)
	}
	return legacySight(queue, rows[0].Strings())
}

func (c tarantool15Client) Fetch(queue string, wait time.Duration) (Task, error) {
	row, ok, err := c.Take(queue, wait.Seconds())
	if err != nil {
		return Task{}, err
	}
	if !ok {
		return Task{}, ErrEmpty
	}
	task := Task{Handle: string(row[0])}
	if len(row) > 3 {
		task.Body = string(row[3])
	}
	return task, nil
}

func (c tarantool15Client) Ack(handle string) error { return c.Box15.Ack(handle) }
