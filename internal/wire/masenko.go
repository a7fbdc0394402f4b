package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Masenko speaks Masenko: a line of a verb and JSON, answered by the same.
type Masenko struct {
	*link
	id []byte // of the job fetched last
}

func newMasenko(l *link, _ Options) (Client, error) { return &Masenko{link: l}, nil }

// Push implements Client.
func (c *Masenko) Push(queue string, jobs ...Job) error {
	if len(jobs) > 1 {
		c.add("ATOMIC\n")
	}
	for i := range jobs {
		c.addPush(queue, &jobs[i])
	}
	if len(jobs) > 1 {
		c.add("DONE\n")
	}
	_, err := c.reply(0)
	return err
}

func (c *Masenko) addPush(queue string, j *Job) {
	c.add(`PUSH {"name":"t","queue":"`, queue, `","payload":`)
	c.out = append(c.out, j.Body...)
	if j.Tries > 0 {
		c.out = fmt.Appendf(c.out, `,"retry":%d`, j.Tries-1)
	}
	if j.Tries == 1 {
		c.add(`,"deadqueue":"`, DeadQueue(queue), `"`)
	}
	if j.Delay > 0 {
		c.out = time.Now().Add(j.Delay).UTC().AppendFormat(append(c.out, `,"execute_at":"`...), time.RFC3339Nano+`"`)
	}
	if j.Group != "" {
		c.add(`,"group":"`, j.Group, `"`)
	}
	if j.Trace != "" {
		c.add(`,"traceparent":"`, j.Trace, `"`)
	}
	c.add("}\n")
}

// DeadQueue returns where the last failure of a job moves it that was pushed through Masenko with one try.
func DeadQueue(queue string) string { return queue + "-dead" }

// reply sends what there is and returns the reply to it, which is valid until the next read.
func (c *Masenko) reply(wait time.Duration) ([]byte, error) {
	if err := c.send(wait); err != nil {
		return nil, err
	}
	return c.Reply()
}

// Reply reads one reply, which is valid until the next read.
func (c *Masenko) Reply() ([]byte, error) {
	line, err := c.line()
	if err != nil || !bytes.HasPrefix(line, []byte("ERR ")) {
		return line, err
	}
	var e struct {
		Msg string `json:"msg"`
	}
	if err := json.Unmarshal(line[4:], &e); err != nil {
		return nil, fmt.Errorf("reply %q: %w", line, err)
	}
	return nil, RefusedError(e.Msg)
}

// Send sends lines without waiting for the reply, which may come after a wait.
func (c *Masenko) Send(wait time.Duration, lines ...string) error {
	for _, l := range lines {
		c.add(l, "\n")
	}
	return c.send(wait)
}

// Call sends lines and returns the one reply to them.
func (c *Masenko) Call(lines ...string) (string, error) {
	if err := c.Send(0, lines...); err != nil {
		return "", err
	}
	line, err := c.Reply()
	return string(line), err
}

// Decode sends lines and decodes the object of the OK that answers them.
func (c *Masenko) Decode(out any, lines ...string) error {
	line, err := c.Call(lines...)
	if err != nil {
		return err
	}
	object, ok := strings.CutPrefix(line, "OK ")
	if !ok {
		return fmt.Errorf("reply %q", line)
	}
	return json.Unmarshal([]byte(object), out)
}

// Fetch implements Client.
func (c *Masenko) Fetch(queue string, wait time.Duration) (j Fetched, ok bool, err error) {
	c.add(`FETCH {"queues":["`, queue, `"],"timeout":`)
	c.out = strconv.AppendInt(c.out, int64(max(1, wait)), 10)
	c.add("}\n")
	line, err := c.reply(wait)
	if err != nil || bytes.HasPrefix(line, []byte("EMPTY")) {
		return j, false, err
	}
	id, err := between(line, `OK {"id":`, ',')
	if err != nil {
		return j, false, err
	}
	c.id = append(c.id[:0], id...)
	body, err := value(line, `"payload":`)
	return Fetched{c.id, body}, err == nil, err
}

// Ack implements Client.
func (c *Masenko) Ack(_ string, id []byte) error { return c.settle("ACK", id) }

// Fail implements Client.
func (c *Masenko) Fail(_ string, id []byte) error { return c.settle("NACK", id) }

func (c *Masenko) settle(verb string, id []byte) error {
	c.add(verb, ` {"id":`)
	c.out = append(c.out, id...)
	c.add("}\n")
	_, err := c.reply(0)
	return err
}

// Look implements Client.
func (c *Masenko) Look(queue string) (Sight, error) {
	var info struct {
		Queues []struct {
			Name    string `json:"name"`
			Ready   int    `json:"ready"`
			Delayed int    `json:"delayed"`
			ToAck   int    `json:"to_ack"`
		} `json:"queues"`
	}
	s := Sight{Dead: Untold}
	err := c.Decode(&info, "INFO {}")
	for _, q := range info.Queues {
		if q.Name == queue {
			s.Ready, s.Delayed, s.Held = q.Ready, q.Delayed, q.ToAck
		}
	}
	return s, err
}
