package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
)

var faktory = protocol{
	name: "faktory",
	bulk: "a PUSHB of 64",
	dial: dialFaktory,
	serve: func(l net.Listener) error {
		return serveTCP(l, "+HI {\"v\":2}\r\n", func() answerFunc { return answerFaktory })
	},
}

// faktoryClient speaks the Faktory Work Protocol: a line of a verb and JSON, answered by a line or by a
// block with its size.
type faktoryClient struct {
	*link
	ids       *uuids
	rest      string // of a job, behind its id
	fetchLine string
	jid       []byte // of the job fetched last
}

func dialFaktory(addr, queue string) (client, error) {
	l, err := dialLink(addr)
	if err != nil {
		return nil, err
	}
	c := &faktoryClient{
		link:      l,
		ids:       newUUIDs(),
		rest:      fmt.Sprintf(`","jobtype":"t","queue":%q,"args":[%s]}`, queue, payload),
		fetchLine: "FETCH " + queue + "\r\n",
	}
	if _, err := c.expect("+HI "); err != nil {
		return nil, closing(l, err)
	}
	c.out = append(c.ids.appendNext(append(c.out, `HELLO {"hostname":"bench","pid":1,"labels":[],"v":2,"wid":"`...)), "\"}\r\n"...)
	if err := c.settled(); err != nil {
		return nil, closing(l, err)
	}
	return c, nil
}

func (c *faktoryClient) appendJob() {
	c.out = append(c.ids.appendNext(append(c.out, `{"jid":"`...)), c.rest...)
}

func (c *faktoryClient) push() error {
	c.out = append(c.out, "PUSH "...)
	c.appendJob()
	c.out = append(c.out, "\r\n"...)
	return c.settled()
}

// settled sends a request that is answered with OK.
func (c *faktoryClient) settled() error {
	if err := c.send(); err != nil {
		return err
	}
	_, err := c.expect("+OK")
	return err
}

func (c *faktoryClient) pushMany(n int) error {
	c.out = append(c.out, "PUSHB ["...)
	for i := range n {
		if i > 0 {
			c.out = append(c.out, ',')
		}
		c.appendJob()
	}
	c.out = append(c.out, "]\r\n"...)
	refused, ok, err := c.bulkString()
	if err == nil && (!ok || string(refused) != "{}") {
		err = fmt.Errorf("refused: %s", refused)
	}
	return err
}

// bulkString sends a request that is answered with a block; none is not ok.
func (c *faktoryClient) bulkString() (text []byte, ok bool, err error) {
	if err := c.send(); err != nil {
		return nil, false, err
	}
	line, err := c.expect("$")
	if err != nil || string(line) == "$-1" {
		return nil, false, err
	}
	n, err := number(line[1:])
	if err != nil {
		return nil, false, err
	}
	text, err = c.block(n + len("\r\n"))
	return bytes.TrimRight(text, "\r\n"), err == nil, err
}

func (c *faktoryClient) fetch() (ok bool, err error) {
	c.out = append(c.out, c.fetchLine...)
	job, ok, err := c.bulkString()
	if err != nil || !ok {
		return false, err
	}
	jid, err := between(job, `"jid":"`, '"')
	c.jid = append(c.jid[:0], jid...)
	return err == nil, err
}

func (c *faktoryClient) ack() error {
	c.out = append(append(append(c.out, `ACK {"jid":"`...), c.jid...), "\"}\r\n"...)
	return c.settled()
}

// faktoryJob is what the server that does nothing delivers.
var faktoryJob = func() string {
	job := `{"jid":"0123456789abcdef","queue":"q","jobtype":"t","args":[` + payload + `],"created_at":"2026-01-01T00:00:00.000000000Z","enqueued_at":"2026-01-01T00:00:00.000000000Z","retry":25}`
	return fmt.Sprintf("$%d\r\n%s\r\n", len(job), job)
}()

func answerFaktory(in *bufio.Reader, out []byte) ([]byte, error) {
	line, err := in.ReadSlice('\n')
	switch {
	case err != nil:
		return out, err
	case line[0] == 'F':
		return append(out, faktoryJob...), nil
	case bytes.HasPrefix(line, []byte("PUSHB")):
		return append(out, "$2\r\n{}\r\n"...), nil
	}
	return append(out, "+OK\r\n"...), nil
}
