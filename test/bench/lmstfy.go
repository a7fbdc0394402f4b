package main

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

var lmstfy = protocol{
	name:  "lmstfy",
	bulk:  "a bulk publish of 64",
	dial:  dialLmstfy,
	serve: serveLmstfy,
}

// lmstfyClient speaks LMSTFY: HTTP/1.1 on one connection, written and read by hand.
type lmstfyClient struct {
	*link
	path                      string // of the queue
	publish, publishMany, get string
	many                      int    // how many jobs publishMany has
	id                        []byte // of the job consumed last
	answer                    []byte // body of the last response
}

const httpEnd = " HTTP/1.1\r\nHost: bench\r\n"

func dialLmstfy(addr, queue string) (client, error) {
	l, err := dialLink(addr)
	if err != nil {
		return nil, err
	}
	path := "/api/bench/" + queue
	return &lmstfyClient{
		link:    l,
		path:    path,
		publish: httpPut(path+"?tries=3", payload),
		get:     fmt.Sprintf("GET %s?ttr=60&timeout=%d%s\r\n", path, int(fetchWait.Seconds()), httpEnd),
	}, nil
}

func httpPut(path, body string) string {
	return fmt.Sprintf("PUT %s%sContent-Length: %d\r\n\r\n%s", path, httpEnd, len(body), body)
}

// do sends a request and reads its response.
func (c *lmstfyClient) do(request string) (status int, err error) {
	c.out = append(c.out, request...)
	if err := c.send(); err != nil {
		return 0, err
	}
	return c.response()
}

// response reads a response into answer.
func (c *lmstfyClient) response() (status int, err error) {
	line, err := c.expect("HTTP/1.1 ")
	if err != nil {
		return 0, err
	}
	if status, err = number(line[9:min(12, len(line))]); err != nil {
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
func (c *lmstfyClient) chunks() error {
	for {
		line, err := c.line()
		if err != nil {
			return err
		}
		var size int
		if _, err := fmt.Sscanf(string(line), "%x", &size); err != nil {
			return fmt.Errorf("chunk of size %q: %w", line, err)
		}
		b, err := c.block(size + len("\r\n"))
		if err != nil {
			return err
		}
		if size == 0 {
			return nil
		}
		c.answer = append(c.answer, b[:size]...)
	}
}

// wants is the error of a response with another status.
func (c *lmstfyClient) wants(want, status int, err error) error {
	if err == nil && status != want {
		err = fmt.Errorf("status %d: %s", status, c.answer)
	}
	return err
}

func (c *lmstfyClient) push() error {
	status, err := c.do(c.publish)
	return c.wants(http.StatusCreated, status, err)
}

func (c *lmstfyClient) pushMany(n int) error {
	if c.many != n {
		c.publishMany = httpPut(c.path+"/bulk?tries=3", "["+payload+strings.Repeat(","+payload, n-1)+"]")
		c.many = n
	}
	status, err := c.do(c.publishMany)
	return c.wants(http.StatusCreated, status, err)
}

func (c *lmstfyClient) fetch() (ok bool, err error) {
	status, err := c.do(c.get)
	if err == nil && status == http.StatusNotFound {
		return false, nil
	}
	if err := c.wants(http.StatusOK, status, err); err != nil {
		return false, err
	}
	id, err := between(c.answer, `"job_id":"`, '"')
	c.id = append(c.id[:0], id...)
	return err == nil, err
}

func (c *lmstfyClient) ack() error {
	c.out = append(append(append(c.out, "DELETE "...), c.path...), "/job/"...)
	c.out = append(append(append(c.out, c.id...), httpEnd...), "\r\n"...)
	if err := c.send(); err != nil {
		return err
	}
	status, err := c.response()
	return c.wants(http.StatusNoContent, status, err)
}

const lmstfyID = "01M7E8YCVASWJNQAQJN8000000"

// What the server that does nothing answers.
var (
	lmstfyPublished = fmt.Sprintf(`{"msg":"published","job_id":%q}`, lmstfyID)
	lmstfyMany      = fmt.Sprintf(`{"msg":"published","job_ids":[%q%s]}`, lmstfyID, strings.Repeat(`,"`+lmstfyID+`"`, bulkSize-1))
	lmstfyJob       = fmt.Sprintf(`{"msg":"new job","namespace":"bench","queue":"q","job_id":%q,"data":%q,"ttl":86400,"elapsed_ms":1,"remain_tries":2,"attributes":null}`,
		lmstfyID, base64.StdEncoding.EncodeToString([]byte(payload)))
)

// serveLmstfy serves with net/http: what a server of this protocol in Go could reach with it.
func serveLmstfy(l net.Listener) error {
	s := &http.Server{Handler: http.HandlerFunc(answerLmstfy), ReadHeaderTimeout: time.Minute}
	err := s.Serve(l)
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func answerLmstfy(w http.ResponseWriter, r *http.Request) {
	// Whatever goes wrong here, the client will tell.
	_, _ = io.Copy(io.Discard, r.Body)
	h := w.Header()
	h["Content-Type"] = []string{"application/json; charset=utf-8"}
	h["X-Request-Id"] = []string{lmstfyID}
	switch {
	case r.Method == http.MethodGet:
		_, _ = io.WriteString(w, lmstfyJob)
	case r.Method == http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
	case strings.HasSuffix(r.URL.Path, "/bulk"):
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, lmstfyMany)
	default:
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, lmstfyPublished)
	}
}
