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
				Options: dialect.Options{Engine: s.Engine, Namespace: s.Namespace, WriteTimeout: s.WriteTimeout},
				MaxLine: s.MaxCommand,
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
			return fmt.Appendf(nil, "PUSH {\"jid\":%q,\"jobtype\":\"task\",\"queue\":%q,\"args\":[%s]}\r\n",
				faktorytest.NewJID(), queue, body)
		},
		Fetch: func(queue string, _ time.Duration) []byte {
			return fmt.Appendf(nil, "FETCH %s\r\n", queue) // how long it waits is not the client's to say
		},
		ReadReply:  readFaktoryReply,
		ShowPacked: showBase64,
		Abilities:  Abilities{High: true, Low: true, Delay: true, TTL: true, Fail: true, Group: true, Trace: true},
		End:        EndDead,
		SumsUp:     true,
		Show:       showJSON,
		Seen:       func(body string) string { return "[" + body + "]" },
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

func (c faktoryClient) Push(queue, body string) error { return c.PushWith(queue, body, Wishes{}) }

func (c faktoryClient) PushWith(queue, body string, w Wishes) error {
	j := faktorytest.Job{JID: faktorytest.NewJID(), Type: "task", Queue: queue, Args: json.RawMessage("[" + body + "]")}
	if w.Level != 0 {
		j.Priority = 5 + w.Level
	}
	if w.Delay > 0 {
		j.At = time.Now().Add(w.Delay).UTC().Format(time.RFC3339Nano)
	}
	if w.TTL > 0 {
		j.Custom = fmt.Appendf(nil, `{"expires_in":%d}`, int(w.TTL.Seconds()))
	}
	if w.Group != "" {
		j.Custom = fmt.Appendf(nil, `{"group":%q}`, w.Group)
	}
	if w.Trace != "" {
		j.Custom = fmt.Appendf(nil, `{"traceparent":%q}`, w.Trace)
	}
	if w.Last {
		dies := -1
		j.Retry = &dies
	}
	return c.Client.Push(j)
}

func (c faktoryClient) FetchFail(queue string) error {
	j, err := c.Client.Fetch(queue)
	if err != nil {
		return err
	}
	return c.Fail(j.JID, "TestError", "on purpose")
}

func (faktoryClient) Inspect(string) (string, error) { return "", ErrUnable }

func (c faktoryClient) Look(queue string) (Sight, error) {
	info, err := c.Info()
	size := func(set string) int { return int(info.Faktory.Tasks[set]["size"]) }
	return Sight{
		Ready:   int(info.Faktory.Queues[queue]), //nolint:gosec // a small number of jobs
		Delayed: size("Scheduled") + size("Retries"), Held: size("Busy"), Dead: size("Dead"),
	}, err
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
