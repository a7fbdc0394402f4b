package bench

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// lmstfyClient speaks LMSTFY: HTTP/1.1 on one connection, written and read by hand.
type lmstfyClient struct {
	*link
	// What requests consist of: puts go up to the length of their bodies, remove up to the id of a job.
	put, putMany, get, remove string
	headers                   string // what ends every request line, and the headers that all have
	id                        []byte // of the job consumed last
	answer                    []byte // body of the last response
	many, body                []byte
}

func dialLmstfy(o DialOptions) (Client, error) {
	l, err := dialLink(o)
	if err != nil {
		return nil, err
	}
	headers := " HTTP/1.1\r\nHost: localhost\r\n"
	if o.Secret != "" {
		headers += "X-Token: " + o.Secret + "\r\n"
	}
	path := "/api/bench/" + o.Queue
	return &lmstfyClient{
		link:    l,
		headers: headers,
		put:     "PUT " + path + "?tries=3" + headers + "Content-Length: ",
		putMany: "PUT " + path + "/bulk?tries=3" + headers + "Content-Length: ",
		get:     fmt.Sprintf("GET %s?ttr=60&timeout=%d%s\r\n", path, int(FetchWait.Seconds()), headers),
		remove:  "DELETE " + path + "/job/",
	}, nil
}

// publish sends a request with a body and reads its response.
func (c *lmstfyClient) publish(request string, body []byte) error {
	c.add(request)
	c.out = strconv.AppendInt(c.out, int64(len(body)), 10)
	c.add("\r\n\r\n")
	c.out = append(c.out, body...)
	status, err := c.do()
	return c.wants(http.StatusCreated, status, err)
}

// do sends a request and reads its response.
func (c *lmstfyClient) do() (status int, err error) {
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
		size, err := strconv.ParseUint(string(line), 16, 31)
		if err != nil {
			return fmt.Errorf("size of a chunk: %w", err)
		}
		b, err := c.block(int(size) + len("\r\n"))
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

// Push implements Client.
func (c *lmstfyClient) Push(body []byte) error { return c.publish(c.put, body) }

// PushMany implements Client.
func (c *lmstfyClient) PushMany(bodies [][]byte) error {
	c.many = append(c.many[:0], '[')
	for i, b := range bodies {
		if i > 0 {
			c.many = append(c.many, ',')
		}
		c.many = append(c.many, b...)
	}
	c.many = append(c.many, ']')
	return c.publish(c.putMany, c.many)
}

// Fetch implements Client.
func (c *lmstfyClient) Fetch() (body []byte, ok bool, err error) {
	c.add(c.get)
	status, err := c.do()
	if err == nil && status == http.StatusNotFound {
		return nil, false, nil
	}
	if err := c.wants(http.StatusOK, status, err); err != nil {
		return nil, false, err
	}
	id, err := between(c.answer, `"job_id":"`, '"')
	if err != nil {
		return nil, false, err
	}
	c.id = append(c.id[:0], id...)
	data, err := between(c.answer, `"data":"`, '"')
	if err != nil {
		return nil, false, err
	}
	c.body, err = base64.StdEncoding.AppendDecode(c.body[:0], data)
	return c.body, err == nil, err
}

// Ack implements Client.
func (c *lmstfyClient) Ack() error {
	c.add(c.remove)
	c.out = append(c.out, c.id...)
	c.add(c.headers, "\r\n")
	status, err := c.do()
	return c.wants(http.StatusNoContent, status, err)
}

// lmstfyID is the id of every job and request of the server that does nothing.
const lmstfyID = "01BX5ZZKBKACTAV9WEVGEMMVRZ"

// serveLmstfy serves with net/http: what a server of this protocol in Go could reach with it.
func serveLmstfy(l net.Listener, o Nothing) error {
	job := fmt.Sprintf(`{"msg":"new job","namespace":"bench","queue":"q","job_id":%q,"data":%q,"ttl":86400,"elapsed_ms":1,"remain_tries":2,"attributes":null}`,
		lmstfyID, base64.StdEncoding.EncodeToString(o.Body))
	const id, bulkMax = `"` + lmstfyID + `",`, 4096
	ids := strings.Repeat(id, bulkMax)
	answer := func(w http.ResponseWriter, r *http.Request) {
		// Whatever goes wrong here, the client will tell.
		size, _ := io.Copy(io.Discard, r.Body)
		h := w.Header()
		h["Content-Type"] = []string{"application/json; charset=utf-8"}
		h["X-Request-Id"] = []string{lmstfyID}
		switch {
		case r.Method == http.MethodGet:
			_, _ = io.WriteString(w, job)
		case r.Method == http.MethodDelete:
			w.WriteHeader(http.StatusNoContent)
		case strings.HasSuffix(r.URL.Path, "/bulk"):
			n := min(int(size)/(len(o.Body)+1), bulkMax)
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, `{"msg":"published","job_ids":[`+strings.TrimSuffix(ids[:n*len(id)], ",")+"]}")
		default:
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, `{"msg":"published","job_id":"`+lmstfyID+`"}`)
		}
	}
	s := &http.Server{Handler: http.HandlerFunc(answer), ReadHeaderTimeout: time.Minute}
	if err := s.Serve(l); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
