package main

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
)

var workq = protocol{
	name: "workq",
	bulk: "64 pipelined add",
	dial: dialWorkq,
	serve: func(l net.Listener) error {
		return serveTCP(l, "", func() answerFunc { return answerWorkq })
	},
}

// workqClient speaks Workq: a line of words, some with a block behind it.
type workqClient struct {
	*link
	ids   *uuids
	rest  string // of an add, behind its id
	lease string
	id    [uuidSize]byte // of the job leased last
}

func dialWorkq(addr, queue string) (client, error) {
	l, err := dialLink(addr)
	if err != nil {
		return nil, err
	}
	return &workqClient{
		link:  l,
		ids:   newUUIDs(),
		rest:  fmt.Sprintf(" %s 60000 3600000 %d\r\n%s\r\n", queue, payloadSize, payload),
		lease: fmt.Sprintf("lease %s %d\r\n", queue, fetchWait.Milliseconds()),
	}, nil
}

func (c *workqClient) push() error { return c.pushMany(1) }

func (c *workqClient) pushMany(n int) error {
	for range n {
		c.out = append(c.ids.appendNext(append(c.out, "add "...)), c.rest...)
	}
	if err := c.send(); err != nil {
		return err
	}
	for range n {
		if _, err := c.expect("+OK"); err != nil {
			return err
		}
	}
	return nil
}

func (c *workqClient) fetch() (ok bool, err error) {
	c.out = append(c.out, c.lease...)
	if err := c.send(); err != nil {
		return false, err
	}
	line, err := c.line()
	switch {
	case err != nil:
		return false, err
	case bytes.HasPrefix(line, []byte("-TIMEOUT")):
		return false, nil
	case string(line) != "+OK 1":
		return false, fmt.Errorf("lease: %q", line)
	}
	if line, err = c.line(); err != nil {
		return false, err
	}
	if copy(c.id[:], line) != uuidSize {
		return false, fmt.Errorf("leased %q", line)
	}
	n, err := number(line[bytes.LastIndexByte(line, ' ')+1:])
	if err != nil {
		return false, err
	}
	_, err = c.block(n + len("\r\n"))
	return err == nil, err
}

// ack completes the job. Its empty result is kept until the time to live ends, which is what a
// worker of this protocol leaves behind.
func (c *workqClient) ack() error {
	c.out = append(append(append(c.out, "complete "...), c.id[:]...), " 0\r\n\r\n"...)
	if err := c.send(); err != nil {
		return err
	}
	_, err := c.expect("+OK")
	return err
}

// uuids makes ids that nobody else has: half of one is random, the rest counts.
type uuids struct {
	random [8]byte
	count  uint32
}

const uuidSize = 36

func newUUIDs() *uuids {
	u := &uuids{}
	_, _ = rand.Read(u.random[:]) // never fails
	return u
}

// appendNext appends a new UUID of version 4 in text form.
func (u *uuids) appendNext(b []byte) []byte {
	u.count++
	n, r := u.count, &u.random
	raw := [16]byte{
		r[0], r[1], r[2], r[3], r[4], r[5], r[6]&0x0f | 0x40, r[7], 0x80, 0,
		0, 0, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n), //nolint:gosec // one byte each
	}
	at := 0
	for i, size := range [...]int{4, 2, 2, 2, 6} {
		if i > 0 {
			b = append(b, '-')
		}
		b = hex.AppendEncode(b, raw[at:at+size])
		at += size
	}
	return b
}

// answerWorkq answers a command and passes over its block, which is a line as well here.
func answerWorkq(in *bufio.Reader, out []byte) ([]byte, error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return out, err
	}
	if line[0] == 'l' {
		out = fmt.Appendf(out, "+OK 1\r\n6ba7b810-9dad-11d1-80b4-00c04fd430c4 q 60000 %d\r\n", payloadSize)
		return append(append(out, payload...), "\r\n"...), nil
	}
	_, err = in.ReadSlice('\n')
	return append(out, "+OK\r\n"...), err
}
