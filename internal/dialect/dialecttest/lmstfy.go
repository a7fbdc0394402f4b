package dialecttest

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/dialect/lmstfy"
	"millrace/internal/dialect/lmstfy/lmstfytest"
)

// Lmstfy drives the LMSTFY protocol.
func Lmstfy() Driver {
	return Driver{
		Name: "lmstfy",
		New: func(s Settings) dialect.Dialect {
			return lmstfy.New(lmstfy.Options{
				Options: dialect.Options{Engine: s.Engine, WriteTimeout: s.WriteTimeout},
				MaxBody: s.MaxCommand, MaxHeader: s.MaxCommand,
			})
		},
		Client: func(conn net.Conn) (Client, error) { return lmstfyClient{lmstfytest.New(conn, namespace)}, nil },
		Push: func(queue, body string) []byte {
			return lmstfytest.Append(nil, http.MethodPut, "/api/"+namespace+"/"+queue, "", []byte(body))
		},
		Fetch: func(queue string, wait time.Duration) []byte {
			target := fmt.Sprintf("/api/%s/%s?timeout=%d", namespace, queue, int(wait.Seconds()))
			return lmstfytest.Append(nil, http.MethodGet, target, "", nil)
		},
		ReadReply: func(r *bufio.Reader) (bool, error) {
			code, _, err := lmstfytest.ReadAnswer(r, http.MethodGet)
			return code < http.StatusMultipleChoices, err
		},
		AnyBytes:  true,
		Abilities: Abilities{Delay: true, TTL: true, Fail: true, Group: true},
		End:       EndDead,
	}
}

// lmstfyClient names a job by its queue and its id.
type lmstfyClient struct{ *lmstfytest.Client }

func (c lmstfyClient) Push(queue, body string) error { return c.PushWith(queue, body, Wishes{}) }

func (c lmstfyClient) PushWith(queue, body string, w Wishes) error {
	tries := 10
	if w.Last {
		tries = 1
	}
	query := fmt.Sprintf("tries=%d&delay=%d", tries, int(w.Delay.Seconds()))
	if w.TTL > 0 {
		query += fmt.Sprintf("&ttl=%d", int(w.TTL.Seconds()))
	}
	if w.Group != "" {
		query += "&group=" + url.QueryEscape(w.Group)
	}
	_, err := c.Publish(queue, query, []byte(body))
	return err
}

// FetchFail takes a job for no time at all.
func (c lmstfyClient) FetchFail(queue string) error {
	_, err := c.Consume(queue, 0, 0)
	return err
}

func (c lmstfyClient) Inspect(handle string) (string, error) {
	queue, id, _ := strings.Cut(handle, "/")
	j, err := c.PeekJob(queue, id)
	if err != nil {
		return "", err
	}
	body, err := j.Body()
	return string(body), err
}

func (c lmstfyClient) Look(queue string) (Sight, error) {
	ready, err := c.Size(queue)
	if err != nil {
		return Sight{}, err
	}
	dead, _, err := c.DeadLetter(queue)
	return Sight{Ready: ready, Delayed: Untold, Held: Untold, Dead: dead}, err
}

func (c lmstfyClient) Fetch(queue string, wait time.Duration) (Task, error) {
	j, err := c.Consume(queue, 2*time.Minute, wait)
	if errors.Is(err, lmstfytest.ErrEmpty) {
		return Task{}, ErrEmpty
	}
	if err != nil {
		return Task{}, err
	}
	body, err := j.Body()
	return Task{Handle: j.Queue + "/" + j.ID, Body: string(body)}, err
}

func (c lmstfyClient) Ack(handle string) error {
	queue, id, _ := strings.Cut(handle, "/")
	return c.Delete(queue, id)
}
