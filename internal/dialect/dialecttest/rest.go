package dialecttest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/dialect/rest"
	"millrace/internal/dialect/rest/resttest"
	"millrace/internal/httpapi"
	"millrace/internal/operator"
)

// Rest drives the calls of the operator API that workers and producers use. Bodies are bytes.
func Rest() Driver {
	return Driver{
		Name: "rest",
		New: func(s Settings) dialect.Dialect {
			return &mounted{Settings: s, Dialect: rest.New(rest.Options{
				Engine: s.Engine, MaxBody: s.MaxCommand, ReadTimeout: time.Second, WriteTimeout: s.WriteTimeout,
			})}
		},
		Client: func(conn net.Conn) (Client, error) { return restClient{resttest.New(conn, namespace)}, nil },
		Push: func(queue, body string) []byte {
			return resttest.Append(nil, http.MethodPost, namespace, "/queues/"+queue+"/jobs",
				resttest.PushRequest([]byte(body), nil))
		},
		Fetch: func(queue string, wait time.Duration) []byte {
			return resttest.Append(nil, http.MethodPost, namespace, "/fetch", resttest.FetchRequest(queue, wait, ""))
		},
		ReadReply: func(r *bufio.Reader) (bool, error) {
			code, answer, err := resttest.ReadAnswer(r)
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

// restClient names a job by its queue and its id.
type restClient struct{ *resttest.Client }

func (c restClient) Push(queue, body string) error { return c.PushWith(queue, body, Wishes{}) }

func (c restClient) PushWith(queue, body string, w Wishes) error {
	fields := map[string]any{"priority": w.Level, "delay_seconds": w.Delay.Seconds(), "ttl_seconds": w.TTL.Seconds(), "group": w.Group, "traceparent": w.Trace}
	if w.Last {
		fields["retry"] = 0
	}
	return c.Client.Push(queue, []byte(body), fields)
}

func (c restClient) Fetch(queue string, wait time.Duration) (Task, error) {
	j, err := c.Client.Fetch(queue, wait)
	if errors.Is(err, resttest.ErrEmpty) {
		err = ErrEmpty
	}
	return Task{Handle: fmt.Sprintf("%s %d", j.Queue, j.ID), Body: string(j.Body.Base64)}, err
}

// settle ends the holding of a job.
func (c restClient) settle(verb, handle string) error {
	queue, id, err := restJob(handle)
	if err == nil {
		_, err = c.Settle(verb, queue, id)
	}
	return err
}

// restJob reads a handle.
func restJob(handle string) (queue string, id uint64, err error) {
	queue, text, _ := strings.Cut(handle, " ")
	id, err = strconv.ParseUint(text, 10, 64)
	return queue, id, err
}

func (c restClient) Ack(handle string) error { return c.settle("ack", handle) }

func (c restClient) FetchFail(queue string) error {
	task, err := c.Fetch(queue, time.Second)
	if err != nil {
		return err
	}
	return c.settle("fail", task.Handle)
}

func (c restClient) Inspect(handle string) (string, error) {
	queue, id, err := restJob(handle)
	if err != nil {
		return "", err
	}
	j, err := c.Get(queue, id)
	switch {
	case err != nil:
		return "", err
	case j.State != "running":
		return "", fmt.Errorf("job %s is %s", handle, j.State)
	case j.Body.Truncated:
		return "", ErrUnable
	}
	return string(j.Body.Base64), nil
}

func (c restClient) Look(queue string) (Sight, error) {
	n, err := c.Counts(queue)
	return Sight{Ready: n["ready"], Delayed: n["scheduled"] + n["retrying"], Held: n["running"], Dead: n["dead"] + n["buried"]}, err
}
