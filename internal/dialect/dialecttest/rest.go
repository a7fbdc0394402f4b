package dialecttest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/dialect/rest"
	"millrace/internal/httpapi"
	"millrace/internal/operator"
	"millrace/internal/wire"
)

const restPath = "/api/v1/namespaces/" + namespace

// Rest drives the calls of the operator API that workers and producers use. Bodies are bytes.
func Rest() Driver {
	return Driver{
		Name: "rest",
		New: func(s Settings) dialect.Dialect {
			return &mounted{Settings: s, Dialect: rest.New(rest.Options{
				Engine: s.Engine, MaxBody: s.MaxCommand, ReadTimeout: time.Second, WriteTimeout: s.WriteTimeout,
			})}
		},
		Client: wired("rest", inspectRest),
		Push: func(queue, body string) []byte {
			text := base64.StdEncoding.EncodeToString([]byte(body))
			return wire.Request(http.MethodPost, restPath+"/queues/"+queue+"/jobs",
				fmt.Appendf(nil, `{"jobs":[{"body_base64":%q}]}`, text))
		},
		Fetch: func(queue string, wait time.Duration) []byte {
			return wire.Request(http.MethodPost, restPath+"/fetch",
				fmt.Appendf(nil, `{"queues":[%q],"wait_seconds":%v}`, queue, wait.Seconds()))
		},
		ReadReply: func(r *bufio.Reader) (bool, error) {
			code, answer, err := wire.ReadAnswer(r)
			none := bytes.Contains(answer, []byte(`"jobs":[]`)) // there was nothing to fetch
			return code < http.StatusMultipleChoices && !none, err
		},
		AnyBytes:  true,
		Abilities: Abilities{High: true, Low: true, Delay: true, TTL: true, Fail: true, Group: true, Trace: true},
		End:       EndDead,
		Alone:     true,
	}
}

// mounted is the protocol in the operator's API, with a listener of its own.
type mounted struct {
	Settings
	*rest.Dialect
}

// Name returns the protocol's name.
func (m *mounted) Name() string { return rest.Spec().Name }

// Stats returns nothing: the server counts the connections of the operator's side.
func (m *mounted) Stats() dialect.ServerStats { return dialect.ServerStats{} }

// Commands returns nothing.
func (m *mounted) Commands() []dialect.CommandFigures { return nil }

// Serve serves the operator's API.
func (m *mounted) Serve(ctx context.Context, l net.Listener) error {
	log := slog.New(slog.DiscardHandler)
	service, err := operator.New(operator.Options{
		Engine: m.Engine, Logger: log, DoorName: dialect.DoorName, Door: dialect.DoorAdmin, AddNames: m.AddNames,
		SampleEvery: time.Hour,
	})
	if err != nil {
		return err
	}
	defer service.Close()
	h := &dialect.HTTP{
		Handler: httpapi.NewHandler(service, httpapi.HandlerOptions{Mounted: m.Handlers()}), Logger: log,
		Shared:       dialect.NewShared(0, 0),
		WriteTimeout: m.WriteTimeout,
	}
	return h.Serve(ctx, l)
}

func inspectRest(c *wire.Rest, queue, handle string) (string, error) {
	var j struct {
		State string `json:"state"`
		Body  struct {
			Base64    []byte `json:"base64"`
			Truncated bool   `json:"truncated"`
		} `json:"body"`
	}
	id, _, _ := strings.Cut(handle, " ")
	err := c.Call(http.MethodGet, "/jobs/"+id+"?queue="+queue, nil, &j)
	switch {
	case err != nil:
		return "", err
	case j.State != "running":
		return "", fmt.Errorf("job %s is %s", id, j.State)
	case j.Body.Truncated:
		return "", ErrUnable
	}
	return string(j.Body.Base64), nil
}
