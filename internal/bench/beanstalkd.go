package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"strconv"
)

// beanstalkdClient speaks the protocol of beanstalkd: a line of words, some with a block behind it.
type beanstalkdClient struct {
	*link
	reserve string
	id      []byte // of the job reserved last
}

func dialBeanstalkd(o DialOptions) (Client, error) {
	l, err := dialLink(o)
	if err != nil {
		return nil, err
	}
	c := &beanstalkdClient{link: l, reserve: fmt.Sprintf("reserve-with-timeout %d\r\n", int(FetchWait.Seconds()))}
	c.add("use ", o.Queue, "\r\n")
	if err := c.settled("USING "); err != nil {
		return nil, closing(l, err)
	}
	c.add("watch ", o.Queue, "\r\n")
	if err := c.settled("WATCHING "); err != nil {
		return nil, closing(l, err)
	}
	return c, nil
}

func (c *beanstalkdClient) addPut(body []byte) {
	c.add("put 1024 0 60 ")
	c.out = strconv.AppendInt(c.out, int64(len(body)), 10)
	c.add("\r\n")
	c.out = append(c.out, body...)
	c.add("\r\n")
}

// Push implements Client.
func (c *beanstalkdClient) Push(body []byte) error {
	c.addPut(body)
	return c.settled("INSERTED ")
}

// PushMany implements Client.
func (c *beanstalkdClient) PushMany(bodies [][]byte) error {
	for _, b := range bodies {
		c.addPut(b)
	}
	if err := c.send(); err != nil {
		return err
	}
	for range bodies {
		if _, err := c.expect("INSERTED "); err != nil {
			return err
		}
	}
	return nil
}

// Fetch implements Client.
func (c *beanstalkdClient) Fetch() (body []byte, ok bool, err error) {
	c.add(c.reserve)
	if err := c.send(); err != nil {
		return nil, false, err
	}
	line, err := c.line()
	if err != nil || string(line) == "TIMED_OUT" {
		return nil, false, err
	}
	words := bytes.Fields(line)
	if len(words) != 3 || string(words[0]) != "RESERVED" {
		return nil, false, fmt.Errorf("reserve: %q", line)
	}
	c.id = append(c.id[:0], words[1]...)
	n, err := number(words[2])
	if err != nil {
		return nil, false, err
	}
	body, err = c.block(n + len("\r\n"))
	return bytes.TrimSuffix(body, []byte("\r\n")), err == nil, err
}

// Ack implements Client.
func (c *beanstalkdClient) Ack() error {
	c.add("delete ")
	c.out = append(c.out, c.id...)
	c.add("\r\n")
	return c.settled("DELETED")
}

func serveBeanstalkd(l net.Listener, o Nothing) error {
	job := fmt.Sprintf("RESERVED 1 %d\r\n%s\r\n", len(o.Body), o.Body)
	answer := func(in *bufio.Reader, out []byte) ([]byte, error) {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return out, err
		}
		switch line[0] {
		case 'r':
			return append(out, job...), nil
		case 'd':
			return append(out, "DELETED\r\n"...), nil
		case 'u':
			return append(out, "USING q\r\n"...), nil
		case 'w':
			return append(out, "WATCHING 1\r\n"...), nil
		}
		_, err = in.ReadSlice('\n') // the block of a put is a line as well here
		return append(out, "INSERTED 1\r\n"...), err
	}
	return serveTCP(l, o, "", func() answerFunc { return answer })
}
