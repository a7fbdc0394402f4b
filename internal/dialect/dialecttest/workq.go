package dialecttest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/dialect/workq"
	"millrace/internal/dialect/workq/workqtest"
)

// Workq drives the Workq protocol.
func Workq() Driver {
	return Driver{
		Name: "workq",
		New: func(s Settings) dialect.Dialect {
			return workq.New(workq.Options{
				Engine: s.Engine, Namespace: s.Namespace, MaxLine: s.MaxCommand, MaxPayload: s.MaxCommand, WriteTimeout: s.WriteTimeout,
			})
		},
		Client: func(conn net.Conn) (Client, error) { return workqClient{workqtest.New(conn)}, nil },
		Push: func(queue, body string) []byte {
			return fmt.Appendf(nil, "add %s %s 60000 600000 %d\r\n%s\r\n", workqtest.NewID(), queue, len(body), body)
		},
		Fetch: func(queue string, wait time.Duration) []byte {
			return fmt.Appendf(nil, "lease %s %d\r\n", queue, wait.Milliseconds())
		},
		ReadReply:        readWorkqReply,
		AnyBytes:         true,
		Keeps:            true,
		ReturnsUnwritten: true,
	}
}

// readWorkqReply reads a line, and if it announces one the item behind it.
func readWorkqReply(r *bufio.Reader) (bool, error) {
	line, err := r.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "+OK 1") {
		return strings.HasPrefix(line, "+OK"), err
	}
	if line, err = r.ReadString('\n'); err != nil {
		return false, err
	}
	words := strings.Fields(line)
	size, err := strconv.Atoi(words[len(words)-1])
	if err != nil {
		return false, err
	}
	_, err = io.CopyN(io.Discard, r, int64(size)+2)
	return true, err
}

type workqClient struct{ *workqtest.Client }

func (c workqClient) Push(queue, body string) error {
	return c.Add(workqtest.Job{ID: workqtest.NewID(), Name: queue, TTR: time.Minute, TTL: 10 * time.Minute, Payload: []byte(body)})
}

func (c workqClient) Fetch(queue string, wait time.Duration) (Task, error) {
	j, err := c.Lease(wait, queue)
	if errors.Is(err, workqtest.ErrTimeout) {
		err = ErrEmpty
	}
	return Task{Handle: j.ID, Body: string(j.Payload)}, err
}

func (c workqClient) Ack(handle string) error { return c.Complete(handle, nil) }
