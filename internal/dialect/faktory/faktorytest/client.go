// Package faktorytest is a small Faktory client for tests: of the protocol, of the
// cross-protocol matrix and of the whole server.
package faktorytest

import (
	"bufio"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
)

// ErrEmpty means that FETCH found no job.
var ErrEmpty = errors.New("no job")

// ServerError is an error line, code included.
type ServerError struct{ Line string }

// Error returns the server's line.
func (e *ServerError) Error() string { return e.Line }

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

// NewJID returns a random jid.
func NewJID() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}

// Hello is what a client says about itself.
type Hello struct {
	Version  int      `json:"v,omitempty"`
	WID      string   `json:"wid,omitempty"`
	Hostname string   `json:"hostname,omitempty"`
	PID      int      `json:"pid,omitempty"`
	Labels   []string `json:"labels,omitempty"`
	PwdHash  string   `json:"pwdhash,omitempty"`
}

// Client is a connection that has shaken hands. It is for one goroutine at a time.
type Client struct {
	conn net.Conn
	r    *bufio.Reader
}

// New shakes hands as a client of today's version without a password. A wid makes it a
// worker.
func New(conn net.Conn, wid string) (*Client, error) {
	return NewWith(conn, Hello{Version: 2, WID: wid}, "")
}

// NewWith shakes hands as h says.
func NewWith(conn net.Conn, h Hello, password string) (*Client, error) {
	c := &Client{conn: conn, r: bufio.NewReader(conn)}
	greeting, err := c.line()
	if err != nil {
		return nil, err
	}
	text, ok := strings.CutPrefix(greeting, "+HI ")
	var hi struct {
		Version int    `json:"v"`
		Rounds  int    `json:"i"`
		Salt    string `json:"s"`
	}
	if !ok || strings.Contains(text, " ") || json.Unmarshal([]byte(text), &hi) != nil || hi.Version != 2 {
		return nil, fmt.Errorf("greeting %q", greeting)
	}
	if hi.Salt != "" && password != "" {
		rounds := hi.Rounds
		if h.Version < 2 {
			rounds = 1
		}
		h.PwdHash = Hash(password, hi.Salt, rounds)
	}
	body, err := json.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("encode HELLO: %w", err)
	}
	return c, c.OK("HELLO " + string(body))
}

// Hash returns the answer to a server that wants to know the password.
func Hash(password, salt string, rounds int) string {
	h := sha256.Sum256([]byte(password + salt))
	for range rounds - 1 {
		h = sha256.Sum256(h[:])
	}
	return hex.EncodeToString(h[:])
}

// Reader returns the reader of what the server sends, for tests that go on with bytes.
func (c *Client) Reader() *bufio.Reader { return c.r }

// Close closes the connection without END.
func (c *Client) Close() error { return c.conn.Close() }

func (c *Client) line() (string, error) {
	line, err := c.r.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("receive: %w", err)
	}
	text, ok := strings.CutSuffix(line, "\r\n")
	if !ok {
		return "", fmt.Errorf("line %q does not end with CR LF", line)
	}
	return text, nil
}

// Send sends a command line without waiting for the reply.
func (c *Client) Send(command string) error {
	if _, err := c.conn.Write([]byte(command + "\r\n")); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return nil
}

// Receive reads one reply: the text of a simple or bulk string. ErrEmpty is the null
// string.
func (c *Client) Receive() (string, error) {
	line, err := c.line()
	switch {
	case err != nil:
		return "", err
	case line == "":
		return "", errors.New("empty line")
	case line[0] == '+':
		return line[1:], nil
	case line[0] == '-':
		return "", &ServerError{line[1:]}
	case line[0] != '$':
		return "", fmt.Errorf("reply %q", line)
	}
	n, err := strconv.Atoi(line[1:])
	if err != nil {
		return "", fmt.Errorf("reply %q: %w", line, err)
	}
	if n < 0 {
		return "", ErrEmpty
	}
	b := make([]byte, n+2)
	if _, err := io.ReadFull(c.r, b); err != nil {
		return "", fmt.Errorf("receive %d bytes: %w", n, err)
	}
	if string(b[n:]) != "\r\n" {
		return "", fmt.Errorf("bulk string of %d bytes ends with %q", n, b[n:])
	}
	return string(b[:n]), nil
}

// Call sends a command and returns the text of the reply.
func (c *Client) Call(command string) (string, error) {
	if err := c.Send(command); err != nil {
		return "", err
	}
	return c.Receive()
}

// OK sends a command whose reply must be OK.
func (c *Client) OK(command string) error {
	text, err := c.Call(command)
	if err == nil && text != "OK" {
		err = fmt.Errorf("reply %q", text)
	}
	return err
}

// call sends a verb with a JSON argument whose reply must be OK.
func (c *Client) call(verb string, arg any) error {
	b, err := json.Marshal(arg)
	if err != nil {
		return fmt.Errorf("encode %s: %w", verb, err)
	}
	return c.OK(verb + " " + string(b))
}

// Push pushes a job.
func (c *Client) Push(j Job) error { return c.call("PUSH", j) }

// PushBulk pushes jobs and returns the texts of those that were refused, by jid.
func (c *Client) PushBulk(jobs []Job) (map[string]string, error) {
	b, err := json.Marshal(jobs)
	if err != nil {
		return nil, fmt.Errorf("encode PUSHB: %w", err)
	}
	text, err := c.Call("PUSHB " + string(b))
	if err != nil {
		return nil, err
	}
	var refused map[string]string
	if err := json.Unmarshal([]byte(text), &refused); err != nil {
		return nil, fmt.Errorf("reply %q: %w", text, err)
	}
	return refused, nil
}

// Fetch fetches a job of the first of the queues that has one. ErrEmpty means that there
// was none within two seconds.
func (c *Client) Fetch(queues ...string) (Job, error) {
	text, err := c.Call("FETCH " + strings.Join(queues, " "))
	if err != nil {
		return Job{}, err
	}
	var j Job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return Job{}, fmt.Errorf("reply %q: %w", text, err)
	}
	return j, nil
}

// Ack acknowledges a job.
func (c *Client) Ack(jid string) error { return c.call("ACK", map[string]string{"jid": jid}) }

// Fail fails a job.
func (c *Client) Fail(jid, errtype, message string) error {
	return c.call("FAIL", map[string]string{"jid": jid, "errtype": errtype, "message": message})
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
func (c *Client) Info() (Info, error) {
	var info Info
	text, err := c.Call("INFO")
	if err != nil {
		return info, err
	}
	if err := json.Unmarshal([]byte(text), &info); err != nil {
		return info, fmt.Errorf("reply %q: %w", text, err)
	}
	return info, nil
}
