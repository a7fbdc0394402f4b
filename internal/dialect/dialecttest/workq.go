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
				Options: dialect.Options{Engine: s.Engine, Namespace: s.Namespace, WriteTimeout: s.WriteTimeout},
				MaxLine: s.MaxCommand, MaxPayload: s.MaxCommand,
			})
		},
		Client: func(conn net.Conn) (Client, error) { return workqClient{workqtest.New(conn)}, nil },
		Push: func(queue, body string) []byte {
			return fmt.Appendf(nil, "add %s %s 60000 600000 %d\r\n%s\r\n", workqtest.NewID(), queue, len(body), body)
		},
		Fetch: func(queue string, wait time.Duration) []byte {
			return fmt.Appendf(nil, "lease %s %d\r\n", queue, wait.Milliseconds())
		},
		ReadReply: readWorkqReply,
		AnyBytes:  true,
		Abilities: Abilities{High: true, Low: true, Delay: true, TTL: true, Fail: true, Group: true, Trace: true},
		End:       EndFailed,
		Keeps:     true,
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

func (c workqClient) Push(queue, body string) error { return c.PushWith(queue, body, Wishes{}) }

func (c workqClient) PushWith(queue, body string, w Wishes) error {
	j := workqtest.Job{
		ID: workqtest.NewID(), Name: queue, TTR: time.Minute, TTL: 10 * time.Minute, Payload: []byte(body),
		Flags: fmt.Sprintf("-priority=%d", w.Level),
	}
	if w.Last {
		j.Flags += " -max-attempts=1 -max-fails=1"
	}
	if w.Group != "" {
		j.Flags += " -group=" + w.Group
	}
	if w.Trace != "" {
		j.Flags += " -traceparent=" + w.Trace
	}
	if w.TTL > 0 {
		j.TTL = w.TTL
	}
	if w.Delay > 0 {
		j.Time = time.Now().Add(w.Delay)
		return c.Schedule(j)
	}
	return c.Add(j)
}

func (c workqClient) FetchFail(queue string) error {
	j, err := c.Lease(time.Second, queue)
	if err != nil {
		return err
	}
	return c.Fail(j.ID, []byte("on purpose"))
}

// leasedState is how the protocol shows a job that somebody has.
const leasedState = "4"

func (c workqClient) Inspect(handle string) (string, error) {
	items, err := c.Client.Inspect("job " + handle)
	if err != nil {
		return "", err
	}
	if len(items) != 1 || items[0].Keys["state"] != leasedState {
		return "", fmt.Errorf("inspect %s shows %+v", handle, items)
	}
	return items[0].Keys["payload"], nil
}

func (c workqClient) Look(queue string) (Sight, error) {
	s := Sight{Held: Untold, Dead: Untold}
	items, err := c.Client.Inspect("queue " + queue)
	if errors.Is(err, workqtest.ErrNotFound) {
		return s, nil
	}
	if err != nil || len(items) != 1 {
		return s, fmt.Errorf("inspect queue shows %d items: %w", len(items), err)
	}
	keys := items[0].Keys
	ready, err := strconv.Atoi(keys["ready-len"])
	if err != nil {
		return s, fmt.Errorf("ready-len: %w", err)
	}
	delayed, err := strconv.Atoi(keys["scheduled-len"])
	s.Ready, s.Delayed = ready, delayed
	return s, err
}

func (c workqClient) Fetch(queue string, wait time.Duration) (Task, error) {
	j, err := c.Lease(wait, queue)
	if errors.Is(err, workqtest.ErrTimeout) {
		err = ErrEmpty
	}
	return Task{Handle: j.ID, Body: string(j.Payload)}, err
}

func (c workqClient) Ack(handle string) error { return c.Complete(handle, nil) }
