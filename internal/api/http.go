package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"

	"millrace/internal/job"
)

// The beginnings of paths.
const (
	PathAPI       = "/api/v1"
	PathNamespace = PathAPI + "/namespaces/{namespace}"
	PathQueue     = PathNamespace + "/queues/{queue}"
	PathJob       = PathNamespace + "/jobs/{id}"
)

// Call is one request of the API.
type Call struct {
	W http.ResponseWriter
	R *http.Request
}

// Name returns a name that the path holds.
func (c *Call) Name(part string) string { return NameIn(c.R.PathValue(part)) }

// ID returns the id of a job that the path holds.
func (c *Call) ID() (job.ID, error) {
	text := c.R.PathValue("id")
	n, err := strconv.ParseUint(text, 10, 53)
	if err != nil || n == 0 {
		return 0, NotFound("%q is no id of a job: ids are numbers; search with ref= for a key", text)
	}
	return job.ID(n), nil
}

// Decode reads the JSON of a request. An empty request leaves the value alone.
func (c *Call) Decode(value any) error {
	body, err := io.ReadAll(c.R.Body)
	if err != nil {
		return CutShort(err)
	}
	if len(body) == 0 {
		return nil
	}
	if kind, _, err := mime.ParseMediaType(c.R.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return ProblemMedia.New("send Content-Type: application/json")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(value); err != nil {
		return Invalid("%s", Misread(err, body, value))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Invalid("the JSON is followed by something else")
	}
	return nil
}

// CutShort explains why a request could not be read.
func CutShort(err error) error {
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return ProblemTooLarge.New("at most %d bytes are read", tooLarge.Limit)
	}
	return Invalid("the request was cut short")
}

// Answer answers with a value as JSON.
func (c *Call) Answer(status int, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("write an answer: %w", err)
	}
	c.W.Header().Set("Content-Type", "application/json")
	c.W.WriteHeader(status)
	_, _ = c.W.Write(text) // nobody to tell
	return nil
}

// Result answers with a value, unless there is an error.
func (c *Call) Result(value any, err error) error {
	if err != nil {
		return err
	}
	return c.Answer(http.StatusOK, value)
}

// WriteProblem answers with a problem.
func WriteProblem(w http.ResponseWriter, p *Problem) {
	text, err := json.Marshal(p)
	if err != nil {
		panic("api: a problem cannot be written: " + err.Error()) // it holds texts and a number
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_, _ = w.Write(text) // nobody to tell
}

const (
	// LargeTimeout is what the reading of a large request may take.
	LargeTimeout = time.Minute
	// ReplyTimeout is what the writing of an answer may take that was long in coming.
	ReplyTimeout = 30 * time.Second
)

// AllowTime gives the request and its answer more time than others have. An error means that the connection is
// gone, which whoever reads or writes next finds.
func (c *Call) AllowTime(d time.Duration) {
	rc, until := http.NewResponseController(c.W), time.Now().Add(d)
	_ = rc.SetReadDeadline(until) // its end would also end the request's context
	_ = rc.SetWriteDeadline(until)
}
