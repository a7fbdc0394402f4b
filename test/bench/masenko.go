package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"strings"
)

var masenko = protocol{
	name: "masenko",
	bulk: "a transaction of 64 PUSH",
	dial: dialMasenko,
	serve: func(l net.Listener) error {
		return serveTCP(l, "", func() answerFunc { return (&masenkoCeiling{}).answer })
	},
}

// masenkoClient speaks Masenko: a line of a verb and JSON, answered by the same.
type masenkoClient struct {
	*link
	pushLine, fetchLine string
	id                  []byte // of the job fetched last
}

func dialMasenko(addr, queue string) (client, error) {
	l, err := dialLink(addr)
	if err != nil {
		return nil, err
	}
	return &masenkoClient{
		link:      l,
		pushLine:  fmt.Sprintf("PUSH {\"name\":\"t\",\"queue\":%q,\"payload\":%s}\n", queue, payload),
		fetchLine: fmt.Sprintf("FETCH {\"queues\":[%q],\"timeout\":%q}\n", queue, fetchWait),
	}, nil
}

func (c *masenkoClient) push() error {
	c.out = append(c.out, c.pushLine...)
	return c.settled()
}

func (c *masenkoClient) pushMany(n int) error {
	c.out = append(c.out, "ATOMIC\n"...)
	for range n {
		c.out = append(c.out, c.pushLine...)
	}
	c.out = append(c.out, "DONE\n"...)
	return c.settled()
}

// settled sends a request that is answered with OK.
func (c *masenkoClient) settled() error {
	if err := c.send(); err != nil {
		return err
	}
	_, err := c.expect("OK ")
	return err
}

func (c *masenkoClient) fetch() (ok bool, err error) {
	c.out = append(c.out, c.fetchLine...)
	if err := c.send(); err != nil {
		return false, err
	}
	line, err := c.line()
	if err != nil || bytes.HasPrefix(line, []byte("EMPTY")) {
		return false, err
	}
	id, err := between(line, `OK {"id":`, ',')
	c.id = append(c.id[:0], id...)
	return err == nil, err
}

func (c *masenkoClient) ack() error {
	c.out = append(append(append(c.out, `ACK {"id":`...), c.id...), "}\n"...)
	return c.settled()
}

// masenkoIDs answers a bulk.
var masenkoIDs = `OK {"ids":[1` + strings.Repeat(",1", bulkSize-1) + "]}\n"

// masenkoCeiling is a connection to the server that does nothing.
type masenkoCeiling struct{ atomic bool }

func (c *masenkoCeiling) answer(in *bufio.Reader, out []byte) ([]byte, error) {
	line, err := in.ReadSlice('\n')
	switch {
	case err != nil:
		return out, err
	case string(line) == "ATOMIC\n":
		c.atomic = true
	case string(line) == "DONE\n":
		c.atomic = false
		return append(out, masenkoIDs...), nil
	case c.atomic:
	case line[0] == 'F':
		return append(append(append(out, `OK {"id":1,"queue":"q","name":"t","payload":`...), payload...), "}\n"...), nil
	default:
		return append(out, `OK {"id":1}`+"\n"...), nil
	}
	return out, nil
}
