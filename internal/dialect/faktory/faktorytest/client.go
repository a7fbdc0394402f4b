// Package faktorytest is a small Faktory client for tests: that of internal/wire, with
// calls for all that the protocol has.
package faktorytest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"

	"millrace/internal/wire"
)

// ErrEmpty means that FETCH found no job.
var ErrEmpty = errors.New("no job")

// Failure is what a job says about its last failure.
type Failure struct {
	RetryCount int      `json:"retry_count"`
	Remaining  int      `json:"remaining"`
	FailedAt   string   `json:"failed_at"`
	NextAt     string   `json:"next_at,omitempty"`
	ErrType    string   `json:"errtype"`
	Message    string   `json:"message"`
	Backtrace  []string `json:"backtrace,omitempty"`
}

// Job is a job to push, or one that was fetched.
type Job struct {
	JID        string          `json:"jid,omitempty"`
	Type       string          `json:"jobtype,omitempty"`
	Queue      string          `json:"queue,omitempty"`
	Args       json.RawMessage `json:"args,omitempty"`
	Retry      *int            `json:"retry,omitempty"`
	ReserveFor int             `json:"reserve_for,omitempty"`
	At         string          `json:"at,omitempty"`
	Priority   int             `json:"priority,omitempty"`
	CreatedAt  string          `json:"created_at,omitempty"`
	EnqueuedAt string          `json:"enqueued_at,omitempty"`
	Custom     json.RawMessage `json:"custom,omitempty"`
	Failure    *Failure        `json:"failure,omitempty"`
}

// Client is a connection that has shaken hands, with calls for all that the protocol has.
type Client struct{ *wire.Faktory }

// New shakes hands as a client without a password. A wid makes it a worker.
func New(conn net.Conn, wid string) (*Client, error) {
	hello := map[string]any{}
	if wid != "" {
		hello["wid"] = wid
	}
	return NewWith(conn, wire.Options{Hello: hello})
}

// NewWith shakes hands as the options say.
func NewWith(conn net.Conn, o wire.Options) (*Client, error) {
	c, err := wire.As[*wire.Faktory](wire.New("faktory", conn, o))
	return &Client{c}, err
}

// decode sends a command and decodes the JSON that answers it.
func (c *Client) decode(out any, command string) error {
	text, err := c.Call(command)
	switch {
	case err != nil:
		return err
	case text == "":
		return ErrEmpty
	}
	if err := json.Unmarshal([]byte(text), out); err != nil {
		return fmt.Errorf("reply %q: %w", text, err)
	}
	return nil
}

// Push pushes a job.
func (c *Client) Push(j Job) error { return c.Say("PUSH", j) }

// PushBulk pushes jobs and returns the texts of those that were refused, by jid.
func (c *Client) PushBulk(jobs []Job) (refused map[string]string, err error) {
	b, err := json.Marshal(jobs)
	if err != nil {
		return nil, fmt.Errorf("encode PUSHB: %w", err)
	}
	err = c.decode(&refused, "PUSHB "+string(b))
	return refused, err
}

// Fetch fetches a job of the first of the queues that has one. ErrEmpty means that there
// was none within two seconds.
func (c *Client) Fetch(queues ...string) (j Job, err error) {
	err = c.decode(&j, "FETCH "+strings.Join(queues, " "))
	return j, err
}

// Ack acknowledges a job.
func (c *Client) Ack(jid string) error { return c.Say("ACK", map[string]string{"jid": jid}) }

// Fail fails a job.
func (c *Client) Fail(jid, errtype, message string) error {
	return c.Say("FAIL", map[string]string{"jid": jid, "errtype": errtype, "message": message})
}

// Info is a part of the answer to INFO.
type Info struct {
	Faktory struct {
		Queues         map[string]uint64             `json:"queues"`
		Sets           map[string]uint64             `json:"sets"`
		Tasks          map[string]map[string]float64 `json:"tasks"`
		TotalFailures  uint64                        `json:"total_failures"`
		TotalProcessed uint64                        `json:"total_processed"`
		TotalEnqueued  uint64                        `json:"total_enqueued"`
		TotalQueues    uint64                        `json:"total_queues"`
	} `json:"faktory"`
	Server struct {
		Description string `json:"description"`
		Version     string `json:"faktory_version"`
		Uptime      uint64 `json:"uptime"`
		Connections uint64 `json:"connections"`
		Commands    uint64 `json:"command_count"`
		Memory      uint64 `json:"used_memory_mb"`
	} `json:"server"`
	Now  string `json:"now"`
	Time string `json:"server_utc_time"`
}

// Info asks for the counts.
func (c *Client) Info() (info Info, err error) {
	err = c.decode(&info, "INFO")
	return info, err
}
