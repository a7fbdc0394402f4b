package bench

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"strconv"
)

// workqClient speaks Workq: a line of words, some with a block behind it.
type workqClient struct {
	*link
	ids   *uuids
	rest  string // of an add, from behind its id to its size
	lease string
	id    [uuidSize]byte // of the job leased last
}

func dialWorkq(o DialOptions) (Client, error) {
	l, err := dialLink(o)
	if err != nil {
		return nil, err
	}
	return &workqClient{
		link:  l,
		ids:   newUUIDs(),
		rest:  fmt.Sprintf(" %s 60000 3600000 ", o.Queue),
		lease: fmt.Sprintf("lease %s %d\r\n", o.Queue, FetchWait.Milliseconds()),
	}, nil
}

func (c *workqClient) addPush(body []byte) {
	c.add("add ")
	c.out = c.ids.appendNext(c.out)
	c.add(c.rest)
	c.out = strconv.AppendInt(c.out, int64(len(body)), 10)
	c.add("\r\n")
	c.out = append(c.out, body...)
	c.add("\r\n")
}

// Push implements Client.
func (c *workqClient) Push(body []byte) error {
	c.addPush(body)
	return c.settled("+OK")
}

// PushMany implements Client.
func (c *workqClient) PushMany(bodies [][]byte) error {
	for _, b := range bodies {
		c.addPush(b)
	}
	if err := c.send(); err != nil {
		return err
	}
	for range bodies {
		if _, err := c.expect("+OK"); err != nil {
			return err
		}
	}
	return nil
}

// Fetch implements Client.
func (c *workqClient) Fetch() (body []byte, ok bool, err error) {
	c.add(c.lease)
	if err := c.send(); err != nil {
		return nil, false, err
	}
	line, err := c.line()
	switch {
	case err != nil:
		return nil, false, err
	case bytes.HasPrefix(line, []byte("-TIMEOUT")):
		return nil, false, nil
	case string(line) != "+OK 1":
		return nil, false, fmt.Errorf("lease: %q", line)
	}
	if line, err = c.line(); err != nil {
		return nil, false, err
	}
	if copy(c.id[:], line) != uuidSize {
		return nil, false, fmt.Errorf("leased %q", line)
	}
	n, err := number(line[bytes.LastIndexByte(line, ' ')+1:])
	if err != nil {
		return nil, false, err
	}
	body, err = c.block(n + len("\r\n"))
	return bytes.TrimSuffix(body, []byte("\r\n")), err == nil, err
}

// Ack implements Client. It completes the job and then deletes it with its empty result, which would be
// kept until the time to live ends: one after the other, as a worker and the one who waits for it do.
func (c *workqClient) Ack() error {
	c.add("complete ")
	c.out = append(c.out, c.id[:]...)
	c.add(" 0\r\n\r\n")
	if err := c.settled("+OK"); err != nil {
		return err
	}
	c.add("delete ")
	c.out = append(c.out, c.id[:]...)
	c.add("\r\n")
	return c.settled("+OK")
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

func serveWorkq(l net.Listener, o Nothing) error {
	job := fmt.Sprintf("+OK 1\r\n6ba7b810-9dad-11d1-80b4-00c04fd430c4 q 60000 %d\r\n%s\r\n", len(o.Body), o.Body)
	answer := func(in *bufio.Reader, out []byte) ([]byte, error) {
		line, err := in.ReadSlice('\n')
		switch {
		case err != nil:
			return out, err
		case line[0] == 'l':
			return append(out, job...), nil
		case line[0] == 'd': // has no block
			return append(out, "+OK\r\n"...), nil
		}
		_, err = in.ReadSlice('\n') // the block is a line as well here
		return append(out, "+OK\r\n"...), err
	}
	return serveTCP(l, o, "", func() answerFunc { return answer })
}
