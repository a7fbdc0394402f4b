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
				Engine: s.Engine, Namespace: s.Namespace, MaxLine: s.MaxCommand, WriteTimeout: s.WriteTimeout,
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
		Show:             showJSON,
		ReturnsUnwritten: true,
	}
}

// showJSON renders plain bytes as the JSON they are, or else as a base64 string.
func showJSON(body string) string {
	var b bytes.Buffer
	if json.Compact(&b, []byte(body)) == nil {
		return b.String()
	}
	return strconv.Quote(base64.StdEncoding.EncodeToString([]byte(body)))
}

type masenkoClient struct{ *masenkotest.Client }

func (c masenkoClient) Push(queue, body string) error {
	_, err := c.Client.Push(masenkotest.Task{Name: "task", Queue: queue, Payload: []byte(body)})
	return err
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
