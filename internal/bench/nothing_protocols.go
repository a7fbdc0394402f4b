package bench

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/tinylib/msgp/msgp"
)

// What is told of IPROTO here: how long a greeting is, how a frame begins, and where the sync is in the header of a
// reply and in a request of ours.
const (
	greetingSize = 128
	frameSize    = 5
	replySync    = 9
	requestSync  = frameSize + 5
)

// masenkoNothing is a connection to the server that does nothing.
type masenkoNothing struct {
	job    string
	atomic bool
	ids    []byte // the answer to a transaction, as far as it has come
}

func serveMasenko(l net.Listener, o Nothing) error {
	job := `OK {"id":1,"queue":"q","name":"t","payload":` + string(o.Body) + "}\n"
	return serveTCP(l, o, "", func() answerFunc { return (&masenkoNothing{job: job}).answer })
}

func (c *masenkoNothing) answer(in *bufio.Reader, out []byte) ([]byte, error) {
	line, err := in.ReadSlice('\n')
	switch {
	case err != nil:
		return out, err
	case string(line) == "ATOMIC\n":
		c.atomic = true
		c.ids = append(c.ids[:0], `OK {"ids":[`...)
	case string(line) == "DONE\n":
		c.atomic = false
		return append(append(out, bytes.TrimSuffix(c.ids, []byte(","))...), "]}\n"...), nil
	case c.atomic:
		c.ids = append(c.ids, "1,"...)
	case line[0] == 'F':
		return append(out, c.job...), nil
	default:
		return append(out, `OK {"id":1}`+"\n"...), nil
	}
	return out, nil
}

func serveWorkq(l net.Listener, o Nothing) error {
	job := fmt.Sprintf("+OK 1\r\n6ba7b810-9dad-11d1-80b4-00c04fd430c4 q 60000 %d\r\n%s\r\n", len(o.Body), o.Body)
	answer := func(in *bufio.Reader, out []byte) ([]byte, error) {
		line, err := in.ReadSlice('\n')
		switch {
		case err != nil:
			return out, err
		case line[0] == 'l':
			return append(out, job...), nil
		case line[0] == 'd': // has no block
			return append(out, "+OK\r\n"...), nil
		}
		_, err = in.ReadSlice('\n') // the block is a line as well here
		return append(out, "+OK\r\n"...), err
	}
	return serveTCP(l, o, "", func() answerFunc { return answer })
}

func serveFaktory(l net.Listener, o Nothing) error {
	text := `{"jid":"0123456789abcdef","queue":"q","jobtype":"t","args":[` + string(o.Body) +
		`],"created_at":"2026-01-01T00:00:00.000000000Z","enqueued_at":"2026-01-01T00:00:00.000000000Z","retry":25}`
	job := fmt.Sprintf("$%d\r\n%s\r\n", len(text), text)
	answer := func(in *bufio.Reader, out []byte) ([]byte, error) {
		line, err := in.ReadSlice('\n')
		switch {
		case err != nil:
			return out, err
		case line[0] == 'F':
			return append(out, job...), nil
		case bytes.HasPrefix(line, []byte("PUSHB")):
			return append(out, "$2\r\n{}\r\n"...), nil
		}
		return append(out, "+OK\r\n"...), nil
	}
	return serveTCP(l, o, "+HI {\"v\":2}\r\n", func() answerFunc { return answer })
}

func serveBeanstalkd(l net.Listener, o Nothing) error {
	job := fmt.Sprintf("RESERVED 1 %d\r\n%s\r\n", len(o.Body), o.Body)
	answer := func(in *bufio.Reader, out []byte) ([]byte, error) {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return out, err
		}
		switch line[0] {
		case 'r':
			return append(out, job...), nil
		case 'd':
			return append(out, "DELETED\r\n"...), nil
		case 'u':
			return append(out, "USING q\r\n"...), nil
		case 'w', 'i':
			return append(out, "WATCHING 1\r\n"...), nil
		}
		_, err = in.ReadSlice('\n') // the block of a put is a line as well here
		return append(out, "INSERTED 1\r\n"...), err
	}
	return serveTCP(l, o, "", func() answerFunc { return answer })
}

// lmstfyID is the id of every job and request of the server that does nothing.
const lmstfyID = "01BX5ZZKBKACTAV9WEVGEMMVRZ"

// serveLmstfy serves with net/http: what a server of this protocol in Go could reach with it.
func serveLmstfy(l net.Listener, o Nothing) error {
	job := fmt.Sprintf(`{"msg":"new job","namespace":"bench","queue":"q","job_id":%q,"data":%q,"ttl":86400,"elapsed_ms":1,"remain_tries":2,"attributes":null}`,
		lmstfyID, base64.StdEncoding.EncodeToString(o.Body))
	const id, bulkMax = `"` + lmstfyID + `",`, 4096
	ids := strings.Repeat(id, bulkMax)
	return serveHTTP(l, "application/json; charset=utf-8", func(w http.ResponseWriter, r *http.Request, size int64) {
		w.Header()["X-Request-Id"] = []string{lmstfyID}
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
	})
}

// serveHTTP answers requests, which have been read. Whatever goes wrong, the client will tell.
func serveHTTP(l net.Listener, kind string, answer func(w http.ResponseWriter, r *http.Request, size int64)) error {
	handle := func(w http.ResponseWriter, r *http.Request) {
		size, _ := io.Copy(io.Discard, r.Body)
		w.Header()["Content-Type"] = []string{kind}
		answer(w, r, size)
	}
	s := &http.Server{Handler: http.HandlerFunc(handle), ReadHeaderTimeout: time.Minute}
	if err := s.Serve(l); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// serveRest serves with net/http, as the operator API does.
func serveRest(l net.Listener, o Nothing) error {
	job := fmt.Sprintf(`{"holder":"1-1","jobs":[{"id":1,"queue":"q","state":"running","body":{"size":%d,"base64":%q}}]}`,
		len(o.Body), base64.StdEncoding.EncodeToString(o.Body))
	return serveHTTP(l, "application/json", func(w http.ResponseWriter, r *http.Request, _ int64) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/fetch"):
			_, _ = io.WriteString(w, job)
		case strings.HasSuffix(r.URL.Path, "/ack"):
			_, _ = io.WriteString(w, `{"id":1,"queue":"q","state":"done"}`)
		default:
			_, _ = io.WriteString(w, `{"jobs":[{"id":1,"state":"ready"}],"pushed":1,"existed":0,"refused":0}`)
		}
	})
}

func serveTarantool(l net.Listener, o Nothing) error {
	// What every request is answered with: a task.
	reply := []byte{
		0xce, 0, 0, 0, 0, // the size
		0x83, 0x00, 0xce, 0, 0, 0, 0, // the status
		0x01, 0xcf, 0, 0, 0, 0, 0, 0, 0, 0, // the sync
		0x05, 0xce, 0, 0, 0, 1, // the schema version
		0x81, 0x30, 0xdd, 0, 0, 0, 1, 0x93, 7, 0xa1, 't',
	}
	reply = msgp.AppendStringFromBytes(reply, o.Body)
	binary.BigEndian.PutUint32(reply[1:], uint32(len(reply)-frameSize)) //nolint:gosec // bounded by the body
	answer := func(in *bufio.Reader, out []byte) ([]byte, error) {
		head, err := in.Peek(frameSize)
		if err != nil {
			return out, err
		}
		size := frameSize + int(binary.BigEndian.Uint32(head[1:]))
		frame, err := in.Peek(size)
		if err != nil {
			return out, err
		}
		start := len(out)
		out = append(out, reply...)
		copy(out[start+frameSize+replySync:][:8], frame[requestSync:])
		_, err = in.Discard(size)
		return out, err
	}
	return serveTCP(l, o, strings.Repeat(" ", greetingSize), func() answerFunc { return answer })
}
