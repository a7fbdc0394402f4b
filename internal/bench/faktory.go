package bench

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"time"
)

// beatEvery is how often a worker tells that it is alive.
const beatEvery = 10 * time.Second

// faktoryClient speaks the Faktory Work Protocol: a line of a verb and JSON, answered by a line or by a
// block with its size.
type faktoryClient struct {
	*link
	ids         *uuids
	rest        string // of a job, from behind its id to its body
	fetch, beat string
	beaten      time.Time
	jid         []byte // of the job fetched last
}

func dialFaktory(o DialOptions) (Client, error) {
	l, err := dialLink(o)
	if err != nil {
		return nil, err
	}
	c := &faktoryClient{
		link: l, ids: newUUIDs(), beaten: time.Now(),
		rest:  fmt.Sprintf(`","jobtype":"t","queue":%q,"args":[`, o.Queue),
		fetch: "FETCH " + o.Queue + "\r\n",
	}
	if err := c.hello(o.Secret); err != nil {
		return nil, closing(l, err)
	}
	return c, nil
}

// hello introduces the client, as a worker.
func (c *faktoryClient) hello(password string) error {
	greeting, err := c.expect("+HI ")
	if err != nil {
		return err
	}
	proof, err := faktoryProof(greeting, password)
	if err != nil {
		return err
	}
	wid := string(c.ids.appendNext(nil))
	c.beat = fmt.Sprintf("BEAT {\"wid\":%q}\r\n", wid)
	c.add(`HELLO {"hostname":"bench","pid":1,"labels":[],"v":2,"wid":"`, wid, `"`, proof, "}\r\n")
	return c.settled("+OK")
}

var errPassword = errors.New("the server asks for a password")

// faktoryProof returns the member of a HELLO that proves to know the password, if the greeting asks.
func faktoryProof(greeting []byte, password string) (string, error) {
	if !bytes.Contains(greeting, []byte(`"s":"`)) {
		return "", nil
	}
	if password == "" {
		return "", errPassword
	}
	salt, err := between(greeting, `"s":"`, '"')
	if err != nil {
		return "", err
	}
	_, text, ok := bytes.Cut(greeting, []byte(`"i":`))
	if !ok {
		text = []byte("1")
	}
	rounds, err := number(text[:len(text)-len(bytes.TrimLeft(text, "0123456789"))])
	if err != nil {
		return "", fmt.Errorf("rounds in %q: %w", greeting, err)
	}
	h := sha256.Sum256(append([]byte(password), salt...))
	for range rounds - 1 {
		h = sha256.Sum256(h[:])
	}
	return `,"pwdhash":"` + hex.EncodeToString(h[:]) + `"`, nil
}

func (c *faktoryClient) addJob(body []byte) {
	c.add(`{"jid":"`)
	c.out = c.ids.appendNext(c.out)
	c.add(c.rest)
	c.out = append(c.out, body...)
	c.add("]}")
}

// Push implements Client.
func (c *faktoryClient) Push(body []byte) error {
	c.add("PUSH ")
	c.addJob(body)
	c.add("\r\n")
	return c.settled("+OK")
}

// PushMany implements Client.
func (c *faktoryClient) PushMany(bodies [][]byte) error {
	c.add("PUSHB [")
	for i, b := range bodies {
		if i > 0 {
			c.add(",")
		}
		c.addJob(b)
	}
	c.add("]\r\n")
	refused, ok, err := c.bulkString()
	if err == nil && (!ok || string(refused) != "{}") {
		err = fmt.Errorf("refused: %s", refused)
	}
	return err
}

// bulkString sends a request that is answered with a block; none is not ok.
func (c *faktoryClient) bulkString() (text []byte, ok bool, err error) {
	if err := c.send(); err != nil {
		return nil, false, err
	}
	line, err := c.expect("$")
	if err != nil || string(line) == "$-1" {
		return nil, false, err
	}
	n, err := number(line[1:])
	if err != nil {
		return nil, false, err
	}
	text, err = c.block(n + len("\r\n"))
	return bytes.TrimRight(text, "\r\n"), err == nil, err
}

// Fetch implements Client.
func (c *faktoryClient) Fetch() (body []byte, ok bool, err error) {
	if now := time.Now(); now.Sub(c.beaten) >= beatEvery {
		c.beaten = now
		c.add(c.beat)
		if err := c.settled("+OK"); err != nil {
			return nil, false, err
		}
	}
	c.add(c.fetch)
	job, ok, err := c.bulkString()
	if err != nil || !ok {
		return nil, false, err
	}
	jid, err := between(job, `"jid":"`, '"')
	if err != nil {
		return nil, false, err
	}
	c.jid = append(c.jid[:0], jid...)
	body, err = quoted(job, `"args":[`)
	return body, err == nil, err
}

// Ack implements Client.
func (c *faktoryClient) Ack() error {
	c.add(`ACK {"jid":"`)
	c.out = append(c.out, c.jid...)
	c.add("\"}\r\n")
	return c.settled("+OK")
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
