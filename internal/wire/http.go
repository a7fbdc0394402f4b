package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// httpLink speaks HTTP/1.1 on one connection, written and read by hand.
type httpLink struct {
	*link
	headers string // what ends every request line, and the headers that all have
	answer  []byte // the body of the last response
	body    []byte // of the request that is being made, or of the job fetched last
}

// finish ends a request whose line has been added as far as its path, sends it with its body, if it has one, and
// returns the status of the response.
func (c *httpLink) finish(wait time.Duration, body []byte) (status int, err error) {
	c.add(c.headers)
	if body != nil {
		c.add("Content-Length: ")
		c.out = strconv.AppendInt(c.out, int64(len(body)), 10)
		c.add("\r\n")
	}
	c.add("\r\n")
	c.out = append(c.out, body...)
	if err := c.send(wait); err != nil {
		return 0, err
	}
	return c.response()
}

// Do sends a request and returns the whole response, whose body is valid until the next read.
func (c *httpLink) Do(method, target string, body []byte) (status int, answer []byte, err error) {
	c.add(method, " ", target)
	status, err = c.finish(0, body)
	return status, c.answer, err
}

// response reads a response into answer.
func (c *httpLink) response() (status int, err error) {
	line, err := c.line()
	if err != nil {
		return 0, err
	}
	text, ok := bytes.CutPrefix(line, []byte("HTTP/1.1 "))
	if !ok {
		return 0, fmt.Errorf("response %q", line)
	}
	if status, err = number(text[:min(3, len(text))]); err != nil {
		return 0, err
	}
	size, chunked := 0, false
	for {
		line, err := c.line()
		if err != nil {
			return 0, err
		}
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch {
		case headerIs(name, "Content-Length"):
			if size, err = number(bytes.TrimSpace(value)); err != nil {
				return 0, err
			}
		case headerIs(name, "Transfer-Encoding"):
			chunked = true
		}
	}
	c.answer = c.answer[:0]
	if chunked {
		return status, c.chunks()
	}
	b, err := c.block(size)
	c.answer = append(c.answer, b...)
	return status, err
}

func headerIs(name []byte, want string) bool {
	return len(name) == len(want) && bytes.EqualFold(name, []byte(want))
}

// chunks reads a body in chunks into answer.
func (c *httpLink) chunks() error {
	for {
		line, err := c.line()
		if err != nil {
			return err
		}
		size, err := strconv.ParseUint(string(line), 16, 31)
		if err != nil {
			return fmt.Errorf("size of a chunk: %w", err)
		}
		b, err := c.text(int(size))
		if err != nil {
			return err
		}
		if size == 0 {
			return nil
		}
		c.answer = append(c.answer, b...)
	}
}

// wants is the refusal of a response with another status.
func (c *httpLink) wants(want, status int, err error) error {
	if err == nil && status != want {
		err = RefusedError(fmt.Sprintf("%d %s: %s", status, http.StatusText(status), c.answer))
	}
	return err
}

// Request returns a request as it goes over the wire, for those who send it themselves.
func Request(method, target string, body []byte) []byte {
	b := fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: localhost\r\n", method, target)
	if body != nil {
		b = fmt.Appendf(b, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	return append(append(b, "\r\n"...), body...)
}

// ReadAnswer reads the answer to such a request.
func ReadAnswer(r *bufio.Reader) (status int, answer []byte, err error) {
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		return 0, nil, err
	}
	answer, err = io.ReadAll(resp.Body)
	return resp.StatusCode, answer, errors.Join(err, resp.Body.Close())
}
