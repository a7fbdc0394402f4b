package dialecttest

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/dialect/workq"
	"millrace/internal/wire"
)

// Workq drives the Workq protocol.
func Workq() Driver {
	return Driver{
		Name: "workq",
		New: func(s Settings) dialect.Dialect {
			return workq.New(workq.Options{
				Options: s.Options, MaxLine: s.MaxCommand, MaxPayload: s.MaxCommand,
			})
		},
		Client: wired("workq", inspectWorkq),
		Push: func(queue, body string) []byte {
			return fmt.Appendf(nil, "add %s %s 60000 600000 %d\r\n%s\r\n", wire.NewID(), queue, len(body), body)
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

// leasedState is how the protocol shows a job that somebody has.
const leasedState = "4"

func inspectWorkq(c *wire.Workq, _, id string) (string, error) {
	items, err := c.Inspect("job " + id)
	if err != nil {
		return "", err
	}
	if len(items) != 1 || items[0].Keys["state"] != leasedState {
		return "", fmt.Errorf("inspect %s shows %+v", id, items)
	}
	return items[0].Keys["payload"], nil
}
