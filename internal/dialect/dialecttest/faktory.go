package dialecttest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/dialect/faktory"
	"millrace/internal/dialect/faktory/faktorytest"
)

// Faktory drives the Faktory work protocol. A body is the only argument of its job.
func Faktory() Driver {
	return Driver{
		Name: "faktory",
		New: func(s Settings) dialect.Dialect {
			return faktory.New(faktory.Options{
				Engine: s.Engine, Namespace: s.Namespace, MaxLine: s.MaxCommand, WriteTimeout: s.WriteTimeout,
			})
		},
		Client: func(conn net.Conn) (Client, error) {
			c, err := faktorytest.New(conn, "")
			return faktoryClient{c}, err
		},
		Hello: func(conn net.Conn) (*bufio.Reader, error) {
			c, err := faktorytest.New(conn, "")
			if err != nil {
				return nil, err
			}
			return c.Reader(), nil
		},
		Push: func(queue, body string) []byte {
			return fmt.Appendf(nil, "PUSH {\"jid\":%q,\"jobtype\":\"task\",\"queue\":%q,\"args\":[%s]}\r\n", faktorytest.NewJID(), queue, body)
		},
		Fetch: func(queue string, _ time.Duration) []byte {
			return fmt.Appendf(nil, "FETCH %s\r\n", queue) // how long it waits is not the client's to say
		},
		ReadReply:        readFaktoryReply,
		Show:             showJSON,
		Seen:             func(body string) string { return "[" + body + "]" },
		ReturnsUnwritten: true,
	}
}

// readFaktoryReply reads a line, and if it announces one the bulk string behind it.
func readFaktoryReply(r *bufio.Reader) (bool, error) {
	line, err := r.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "$") {
		return strings.HasPrefix(line, "+OK"), err
	}
	size, err := strconv.Atoi(strings.TrimSpace(line[1:]))
	if err != nil || size < 0 {
		return false, err
	}
	_, err = io.CopyN(io.Discard, r, int64(size)+2)
	return true, err
}

type faktoryClient struct{ *faktorytest.Client }

func (c faktoryClient) Push(queue, body string) error {
	return c.Client.Push(faktorytest.Job{JID: faktorytest.NewJID(), Type: "task", Queue: queue, Args: json.RawMessage("[" + body + "]")})
}

// Fetch asks again until the time is over: the protocol has one of its own.
func (c faktoryClient) Fetch(queue string, wait time.Duration) (Task, error) {
	for end := time.Now().Add(wait); ; {
		j, err := c.Client.Fetch(queue)
		if err == nil {
			args := string(j.Args)
			return Task{Handle: j.JID, Body: args[1 : len(args)-1]}, nil
		}
		if !errors.Is(err, faktorytest.ErrEmpty) {
			return Task{}, err
		}
		if !time.Now().Before(end) {
			return Task{}, ErrEmpty
		}
	}
}
