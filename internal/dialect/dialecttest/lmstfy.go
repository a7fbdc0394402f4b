package dialecttest

import (
	"bufio"
	"fmt"
	"net/http"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/dialect/lmstfy"
	"millrace/internal/wire"
)

// Lmstfy drives the LMSTFY protocol.
func Lmstfy() Driver {
	return Driver{
		Name: "lmstfy",
		New: func(s Settings) dialect.Dialect {
			return lmstfy.New(lmstfy.Options{
				Options: s.Options, MaxBody: s.MaxCommand, MaxHeader: s.MaxCommand,
			})
		},
		Client: wired("lmstfy", inspectLmstfy),
		Push: func(queue, body string) []byte {
			return wire.Request(http.MethodPut, "/api/"+namespace+"/"+queue, []byte(body))
		},
		Fetch: func(queue string, wait time.Duration) []byte {
			target := fmt.Sprintf("/api/%s/%s?timeout=%d", namespace, queue, int(wait.Seconds()))
			return wire.Request(http.MethodGet, target, nil)
		},
		ReadReply: func(r *bufio.Reader) (bool, error) {
			code, _, err := wire.ReadAnswer(r)
			return code < http.StatusMultipleChoices, err
		},
		AnyBytes:  true,
		Abilities: Abilities{Delay: true, TTL: true, Fail: true, Group: true},
		End:       EndDead,
	}
}

func inspectLmstfy(c *wire.Lmstfy, queue, id string) (string, error) {
	var j struct {
		Data []byte `json:"data"`
	}
	err := c.Call(http.MethodGet, queue+"/job/"+id, nil, http.StatusOK, &j)
	return string(j.Data), err
}
