package dialecttest

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/dialect/masenko"
	"millrace/internal/wire"
)

// Masenko drives the Masenko protocol.
func Masenko() Driver {
	return Driver{
		Name: "masenko",
		New: func(s Settings) dialect.Dialect {
			return masenko.New(masenko.Options{Options: s.Options, MaxLine: s.MaxCommand})
		},
		Client: wired[*wire.Masenko]("masenko", nil),
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
