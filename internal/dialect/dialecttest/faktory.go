package dialecttest

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/dialect/faktory"
	"millrace/internal/wire"
)

// Faktory drives the Faktory work protocol. A body is the only argument of its job.
func Faktory() Driver {
	return Driver{
		Name: "faktory",
		New: func(s Settings) dialect.Dialect {
			return faktory.New(faktory.Options{Options: s.Options, MaxLine: s.MaxCommand})
		},
		Client: wired[*wire.Faktory]("faktory", nil),
		Hello:  shake("faktory"),
		Push: func(queue, body string) []byte {
			return fmt.Appendf(nil, "PUSH {\"jid\":%q,\"jobtype\":\"task\",\"queue\":%q,\"args\":[%s]}\r\n",
				wire.NewID(), queue, body)
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
