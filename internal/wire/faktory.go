package wire

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"
)

const (
	// beatEvery is how often a worker tells that it is alive.
	beatEvery = 10 * time.Second
	// faktoryWait is how long a FETCH waits, whatever the client wants.
	faktoryWait = 2 * time.Second
)

// Faktory speaks the Faktory Work Protocol: a line of a verb and JSON, answered by a line or by a block with its size.
type Faktory struct {
	*link
	ids    *uuids
	wid    string // of a worker
	beaten time.Time
	jid    []byte // of the job fetched last
}

func newFaktory(l *link, o Options) (Client, error) {
	c := &Faktory{link: l, ids: newUUIDs(), beaten: time.Now()}
	hello := map[string]any{"v": 2}
	maps.Copy(hello, o.Hello)
	c.wid, _ = hello["wid"].(string)
	return c, c.hello(hello, o.Secret)
}

// hello introduces the client.
func (c *Faktory) hello(hello map[string]any, password string) error {
	if err := c.expire(0); err != nil {
		return err
	}
	greeting, err := c.line()
	if err != nil {
		return err
	}
	text, ok := bytes.CutPrefix(greeting, []byte("+HI "))
	var hi struct {
		Rounds int    `json:"i"`
		Salt   string `json:"s"`
	}
	if !ok || json.Unmarshal(text, &hi) != nil {
		return fmt.Errorf("greeting %q", greeting)
	}
	if hi.Salt != "" {
		if password == "" {
			return errPassword
		}
		if hello["v"] == 1 {
			hi.Rounds = 1
		}
		hello["pwdhash"] = FaktoryHash(password, hi.Salt, hi.Rounds)
	}
	return c.Say("HELLO", hello)
}

var errPassword = errors.New("the server asks for a password")

// FaktoryHash returns the answer to a server that wants to know the password.
func FaktoryHash(password, salt string, rounds int) string {
	h := sha256.Sum256([]byte(password + salt))
	for range rounds - 1 {
		h = sha256.Sum256(h[:])
	}
	return hex.EncodeToString(h[:])
}

// Say sends a verb with a JSON argument whose reply must be OK.
func (c *Faktory) Say(verb string, arg any) error {
	text, err := json.Marshal(arg)
	if err != nil {
		return err
	}
	return c.OK(verb + " " + string(text))
}

// Send sends a command line without waiting for the reply.
func (c *Faktory) Send(command string) error {
	c.add(command, "\r\n")
	return c.send(faktoryWait)
}

// Receive reads one reply: the text of a line or block, not ok if that is null. It is valid until the next read.
func (c *Faktory) Receive() (text []byte, ok bool, err error) {
	line, err := c.line()
	switch {
	case err != nil || string(line) == "$-1":
		return nil, false, err
	case bytes.HasPrefix(line, []byte("+")):
		return line[1:], true, nil
	case bytes.HasPrefix(line, []byte("-")):
		return nil, false, RefusedError(line[1:])
	case !bytes.HasPrefix(line, []byte("$")):
		return nil, false, fmt.Errorf("reply %q", line)
	}
	n, err := number(line[1:])
	if err != nil {
		return nil, false, err
	}
	text, err = c.text(n)
	return text, err == nil, err
}

// Call sends a command and returns the text of the reply, none if that is null.
func (c *Faktory) Call(command string) (string, error) {
	if err := c.Send(command); err != nil {
		return "", err
	}
	text, _, err := c.Receive()
	return string(text), err
}

// OK sends a command whose reply must be OK.
func (c *Faktory) OK(command string) error {
	c.add(command, "\r\n")
	return c.settled()
}

// settled sends a request that is answered with OK.
func (c *Faktory) settled() error {
	if err := c.send(0); err != nil {
		return err
	}
	text, _, err := c.Receive()
	if err == nil && string(text) != "OK" {
		err = fmt.Errorf("reply %q", text)
	}
	return err
}

func (c *Faktory) addJob(queue string, j *Job) {
	c.add(`{"jid":"`)
	if j.ID == "" {
		c.out = c.ids.appendNext(c.out)
	} else {
		c.add(j.ID)
	}
	c.add(`","jobtype":"t","queue":"`, queue, `","args":[`)
	c.out = append(c.out, j.Body...)
	c.add("]")
	if j.Lease > 0 {
		c.out = fmt.Appendf(c.out, `,"reserve_for":%d`, seconds(j.Lease))
	}
	switch {
	case j.Tries == 1:
		c.add(`,"retry":-1`) // which is dead at its first failure; with zero it would be gone
	case j.Tries > 1:
		c.out = fmt.Appendf(c.out, `,"retry":%d`, j.Tries-1)
	}
	if j.Level != 0 {
		c.out = fmt.Appendf(c.out, `,"priority":%d`, 5+j.Level)
	}
	if j.Delay > 0 {
		c.out = time.Now().Add(j.Delay).UTC().AppendFormat(append(c.out, `,"at":"`...), time.RFC3339Nano+`"`)
	}
	c.addCustom(j)
	c.add("}")
}

// addCustom appends what has no member of its own.
func (c *Faktory) addCustom(j *Job) {
	var custom []string
	if j.TTL > 0 {
		custom = append(custom, fmt.Sprintf(`"expires_in":%d`, seconds(j.TTL)))
	}
	if j.Group != "" {
		custom = append(custom, `"group":"`+j.Group+`"`)
	}
	if j.Trace != "" {
		custom = append(custom, `"traceparent":"`+j.Trace+`"`)
	}
	if len(custom) > 0 {
		c.add(`,"custom":{`, strings.Join(custom, ","), "}")
	}
}

// Push implements Client.
func (c *Faktory) Push(queue string, jobs ...Job) error {
	if len(jobs) == 1 {
		c.add("PUSH ")
		c.addJob(queue, &jobs[0])
		c.add("\r\n")
		return c.settled()
	}
	c.add("PUSHB [")
	for i := range jobs {
		if i > 0 {
			c.add(",")
		}
		c.addJob(queue, &jobs[i])
	}
	c.add("]\r\n")
	if err := c.send(0); err != nil {
		return err
	}
	refused, _, err := c.Receive()
	if err == nil && string(refused) != "{}" {
		err = fmt.Errorf("refused: %s", refused)
	}
	return err
}

// Fetch implements Client. The queue may be several, with spaces between them. It waits as long as the protocol does.
func (c *Faktory) Fetch(queue string, _ time.Duration) (j Fetched, ok bool, err error) {
	if err := c.beat(); err != nil {
		return j, false, err
	}
	c.add("FETCH ", queue, "\r\n")
	if err := c.send(faktoryWait); err != nil {
		return j, false, err
	}
	text, ok, err := c.Receive()
	if err != nil || !ok {
		return j, false, err
	}
	jid, err := between(text, `"jid":"`, '"')
	if err != nil {
		return j, false, err
	}
	c.jid = append(c.jid[:0], jid...)
	// Mostly the arguments are one string without escapes.
	body, err := value(text, `"args":[`)
	_, rest, _ := bytes.Cut(text, []byte(`"args":[`))
	if err != nil || len(rest) <= len(body) || rest[len(body)] != ']' {
		if body, err = value(text, `"args":`); err == nil {
			body = body[1 : len(body)-1]
		}
	}
	return Fetched{c.jid, body}, err == nil, err
}

// beat tells now and then that a worker is alive.
func (c *Faktory) beat() error {
	if c.wid == "" {
		return nil
	}
	now := time.Now()
	if now.Sub(c.beaten) < beatEvery {
		return nil
	}
	c.beaten = now
	c.add(`BEAT {"wid":"`, c.wid, "\"}\r\n")
	return c.settled()
}

// Ack implements Client.
func (c *Faktory) Ack(_ string, id []byte) error {
	c.add(`ACK {"jid":"`)
	c.out = append(c.out, id...)
	c.add("\"}\r\n")
	return c.settled()
}

// Fail implements Client.
func (c *Faktory) Fail(_ string, id []byte) error {
	c.add(`FAIL {"errtype":"E","message":"on purpose","backtrace":[],"jid":"`)
	c.out = append(c.out, id...)
	c.add("\"}\r\n")
	return c.settled()
}

// Look implements Client. What is delayed, held and dead is that of the whole namespace.
func (c *Faktory) Look(queue string) (Sight, error) {
	text, err := c.Call("INFO")
	if err != nil {
		return Sight{}, err
	}
	var info struct {
		Faktory struct {
			Queues map[string]int `json:"queues"`
			Tasks  map[string]struct {
				Size int `json:"size"`
			} `json:"tasks"`
		} `json:"faktory"`
	}
	err = json.Unmarshal([]byte(text), &info)
	sets := info.Faktory.Tasks
	return Sight{
		Ready: info.Faktory.Queues[queue], Delayed: sets["Scheduled"].Size + sets["Retries"].Size,
		Held: sets["Busy"].Size, Dead: sets["Dead"].Size,
	}, err
}
