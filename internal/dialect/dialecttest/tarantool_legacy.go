package dialecttest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/tinylib/msgp/msgp"

	"millrace/internal/dialect/tarantool/tarantooltest"
	"millrace/internal/wire"
)

// TarantoolLegacy drives the legacy queue API over IPROTO.
func TarantoolLegacy() Driver {
	d := legacyDriver("tarantool-legacy", func(procedure string, args ...string) []byte {
		var all []byte
		for _, a := range args {
			all = append(all, tarantoolData(a)...)
		}
		return tarantooltest.CallPacket(tarantooltest.TypeCall, 1, procedure, len(args), all)
	})
	d.New = Tarantool().New
	d.Client = func(conn net.Conn) (Client, error) {
		c, err := wire.As[*wire.Tarantool](wire.New("tarantool", conn, wire.Options{}))
		return legacyClient{conn, func(procedure string, args ...string) ([]string, error) {
			all := make([][]byte, len(args))
			for i, a := range args {
				all[i] = tarantoolData(a)
			}
			data, err := c.Call(0, procedure, all...)
			if err != nil {
				return nil, err
			}
			return legacyFields(data)
		}}, err
	}
	d.Hello = shake("tarantool")
	d.ReadReply = func(r *bufio.Reader) (bool, error) {
		p, err := tarantooltest.ReadReply(r)
		if err != nil || p.Err() != nil {
			return false, err
		}
		fields, err := legacyFields(p.Data())
		return len(fields) > 0, err
	}
	return d
}

// legacyFields reads the fields of the task that a call has returned; none if it returned none.
func legacyFields(data msgp.Raw) (fields []string, err error) {
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
		fields = append(fields, string(wire.TextOf(msgp.Raw(rest[:len(rest)-len(next)]))))
		rest = next
	}
	return fields, nil
}

// legacyDriver is what the drivers of the legacy queue API have in common. Packet makes a call. A body is one string,
// and so is every other argument: one that is empty is not given.
func legacyDriver(name string, packet func(procedure string, args ...string) []byte) Driver {
	return Driver{
		Name: name,
		Push: func(queue, body string) []byte { return packet("queue.put", legacyPut(queue, body, Wishes{})...) },
		Fetch: func(queue string, wait time.Duration) []byte {
			return packet("queue.take", "0", queue, decimal(wait))
		},
		AnyBytes:  true,
		Abilities: Abilities{High: true, Low: true, Delay: true, TTL: true},
		Alone:     true,
	}
}

// legacyPut are the arguments of a put.
func legacyPut(queue, body string, w Wishes) []string {
	const usual = 127 // the priority of a task that says none
	ttl := ""
	if w.TTL > 0 {
		ttl = decimal(w.TTL)
	}
	return []string{"0", queue, decimal(w.Delay), ttl, "", strconv.Itoa(usual + w.Level), body}
}

// decimal is a duration as seconds in text.
func decimal(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) }

// legacyClient calls the procedures of the legacy API over either wire protocol. Call returns the fields of the row
// that was returned; none if none was.
type legacyClient struct {
	io.Closer
	call func(procedure string, args ...string) ([]string, error)
}

func (c legacyClient) Push(queue, body string) error { return c.PushWith(queue, body, Wishes{}) }

func (c legacyClient) PushWith(queue, body string, w Wishes) error {
	_, err := c.call("queue.put", legacyPut(queue, body, w)...)
	return err
}

// taken calls a procedure that returns a task that is taken: id, tube, status and at most one field of data.
func (c legacyClient) taken(procedure string, args ...string) (Task, error) {
	fields, err := c.call(procedure, args...)
	switch {
	case err != nil:
		return Task{}, err
	case len(fields) == 0:
		return Task{}, ErrEmpty
	case len(fields) < 3 || len(fields) > 4 || fields[2] != "taken":
		return Task{}, fmt.Errorf("%s returns %q", procedure, fields)
	}
	t := Task{Handle: fields[0]}
	if len(fields) == 4 {
		t.Body = fields[3]
	}
	return t, nil
}

func (c legacyClient) Fetch(queue string, wait time.Duration) (Task, error) {
	return c.taken("queue.take", "0", queue, decimal(wait))
}

func (c legacyClient) Ack(handle string) error {
	_, err := c.call("queue.ack", "0", handle)
	return err
}

func (legacyClient) FetchFail(string) error { return ErrUnable }

func (c legacyClient) Inspect(handle string) (string, error) {
	t, err := c.taken("queue.peek", "0", handle)
	return t.Body, err
}

// Look reads names and values in turn. Of a tube that was used through these
// procedures zeros are left out, of others nothing is told.
func (c legacyClient) Look(queue string) (Sight, error) {
	texts, err := c.call("queue.statistics", "0", queue)
	if err != nil {
		return Sight{}, err
	}
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
