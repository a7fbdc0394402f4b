package dialecttest

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/dialect/masenko"
	"millrace/internal/dialect/masenko/masenkotest"
)

// Masenko drives the Masenko protocol.
func Masenko() Driver {
	return Driver{
		Name: "masenko",
		New: func(s Settings) dialect.Dialect {
			return masenko.New(masenko.Options{
				Options: dialect.Options{Engine: s.Engine, Namespace: s.Namespace, WriteTimeout: s.WriteTimeout},
				MaxLine: s.MaxCommand,
			})
		},
		Client: func(conn net.Conn) (Client, error) { return masenkoClient{masenkotest.New(conn)}, nil },
		Push: func(queue, body string) []byte {
			return fmt.Appendf(nil, "PUSH {\"name\":\"task\",\"queue\":%q,\"payload\":%s}\n", queue, body)
		},
		Fetch: func(queue string, wait time.Duration) []byte {
			return fmt.Appendf(nil, "FETCH {\"queues\":[%q],\"timeout\":%d}\n", queue, wait.Nanoseconds())
		},
		ReadReply: func(r *bufio.Reader) (bool, error) {
			line, err := r.ReadString('\n')
			return strings.HasPrefix(line, "OK "), err
		},
		Show:       showJSON,
		ShowPacked: showBase64,
		Abilities:  Abilities{Delay: true, Fail: true, Group: true, Trace: true},
		End:        EndMoved,
		Alone:      true,
	}
}

// showJSON renders plain bytes as the JSON they are, or else as a base64 string.
func showJSON(body string) string {
	var b bytes.Buffer
	if json.Compact(&b, []byte(body)) == nil {
		return b.String()
	}
	return showBase64(body)
}

// showBase64 renders bytes as a base64 string.
func showBase64(body string) string {
	return strconv.Quote(base64.StdEncoding.EncodeToString([]byte(body)))
}

type masenkoClient struct{ *masenkotest.Client }

func (c masenkoClient) Push(queue, body string) error { return c.PushWith(queue, body, Wishes{}) }

func (c masenkoClient) PushWith(queue, body string, w Wishes) error {
	task := masenkotest.Task{Name: "task", Queue: queue, Payload: []byte(body), Group: w.Group, Trace: w.Trace}
	if w.Delay > 0 {
		at := time.Now().Add(w.Delay)
		task.ExecuteAt = &at
	}
	if w.Last {
		task.Retry, task.DeadQueue = new(uint8), DeadQueue(queue)
	}
	_, err := c.Client.Push(task)
	return err
}

func (c masenkoClient) FetchFail(queue string) error {
	t, err := c.Client.Fetch(time.Second, queue)
	if err != nil {
		return err
	}
	return c.Nack(t.ID)
}

func (masenkoClient) Inspect(string) (string, error) { return "", ErrUnable }

func (c masenkoClient) Look(queue string) (Sight, error) {
	info, err := c.Info()
	s := Sight{Dead: Untold}
	for _, q := range info.Queues {
		if q.Name == queue {
			s.Ready, s.Delayed, s.Held = int(q.Ready), int(q.Delayed), int(q.ToAck) //nolint:gosec // small numbers of jobs
		}
	}
	return s, err
}

func (c masenkoClient) Fetch(queue string, wait time.Duration) (Task, error) {
	t, err := c.Client.Fetch(wait, queue)
	if errors.Is(err, masenkotest.ErrEmpty) {
		err = ErrEmpty
	}
	return Task{Handle: strconv.FormatUint(uint64(t.ID), 10), Body: string(t.Payload)}, err
}

func (c masenkoClient) Ack(handle string) error {
	id, err := strconv.ParseUint(handle, 10, 32)
	if err != nil {
		return fmt.Errorf("handle: %w", err)
	}
	return c.Client.Ack(uint32(id))
}
