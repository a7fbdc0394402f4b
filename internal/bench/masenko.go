package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
)

// masenkoClient speaks Masenko: a line of a verb and JSON, answered by the same.
type masenkoClient struct {
	*link
	push, fetch string // push up to the body
	id          []byte // of the job fetched last
}

func dialMasenko(o DialOptions) (Client, error) {
	l, err := dialLink(o)
	if err != nil {
		return nil, err
	}
	return &masenkoClient{
		link:  l,
		push:  fmt.Sprintf(`PUSH {"name":"t","queue":%q,"payload":`, o.Queue),
		fetch: fmt.Sprintf("FETCH {\"queues\":[%q],\"timeout\":%q}\n", o.Queue, FetchWait),
	}, nil
}

func (c *masenkoClient) addPush(body []byte) {
	c.add(c.push)
	c.out = append(c.out, body...)
	c.add("}\n")
}

// Push implements Client.
func (c *masenkoClient) Push(body []byte) error {
	c.addPush(body)
	return c.settled("OK ")
}

// PushMany implements Client.
func (c *masenkoClient) PushMany(bodies [][]byte) error {
	c.add("ATOMIC\n")
	for _, b := range bodies {
		c.addPush(b)
	}
	c.add("DONE\n")
	return c.settled("OK ")
}

// Fetch implements Client.
func (c *masenkoClient) Fetch() (body []byte, ok bool, err error) {
	c.add(c.fetch)
	if err := c.send(); err != nil {
		return nil, false, err
	}
	line, err := c.line()
	if err != nil || bytes.HasPrefix(line, []byte("EMPTY")) {
		return nil, false, err
	}
	id, err := between(line, `OK {"id":`, ',')
	if err != nil {
		return nil, false, err
	}
	c.id = append(c.id[:0], id...)
	body, err = quoted(line, `"payload":`)
	return body, err == nil, err
}

// Ack implements Client.
func (c *masenkoClient) Ack() error {
	c.add(`ACK {"id":`)
	c.out = append(c.out, c.id...)
	c.add("}\n")
	return c.settled("OK ")
}

// masenkoNothing is a connection to the server that does nothing.
type masenkoNothing struct {
	job    string
	atomic bool
	ids    []byte // the answer to a transaction, as far as it has come
}

func serveMasenko(l net.Listener, o Nothing) error {
	job := `OK {"id":1,"queue":"q","name":"t","payload":` + string(o.Body) + "}\n"
	return serveTCP(l, o, "", func() answerFunc { return (&masenkoNothing{job: job}).answer })
}

func (c *masenkoNothing) answer(in *bufio.Reader, out []byte) ([]byte, error) {
	line, err := in.ReadSlice('\n')
	switch {
	case err != nil:
		return out, err
	case string(line) == "ATOMIC\n":
		c.atomic = true
		c.ids = append(c.ids[:0], `OK {"ids":[`...)
	case string(line) == "DONE\n":
		c.atomic = false
		return append(append(out, bytes.TrimSuffix(c.ids, []byte(","))...), "]}\n"...), nil
	case c.atomic:
		c.ids = append(c.ids, "1,"...)
	case line[0] == 'F':
		return append(out, c.job...), nil
	default:
		return append(out, `OK {"id":1}`+"\n"...), nil
	}
	return out, nil
}
