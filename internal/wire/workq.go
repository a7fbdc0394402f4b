package wire

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Workq speaks Workq: a line of words, some with a block behind it.
type Workq struct {
	*link
	ids *uuids
	id  []byte // of the job leased last
}

// The times of a job that says nothing about them.
const (
	workqLease = time.Minute
	workqLife  = 24 * time.Hour
)

func newWorkq(l *link, _ Options) (Client, error) { return &Workq{link: l, ids: newUUIDs()}, nil }

// Push implements Client. One with a delay must be alone.
func (c *Workq) Push(queue string, jobs ...Job) error {
	for i := range jobs {
		c.addPush(queue, &jobs[i])
	}
	if err := c.send(0); err != nil {
		return err
	}
	for range jobs {
		if _, err := c.reply(); err != nil {
			return err
		}
	}
	return nil
}

func (c *Workq) addPush(queue string, j *Job) {
	if j.Delay > 0 {
		c.add("schedule ")
	} else {
		c.add("add ")
	}
	if j.ID == "" {
		c.out = c.ids.appendNext(c.out)
	} else {
		c.add(j.ID)
	}
	c.add(" ", queue, " ")
	c.addTime(j.Lease, workqLease)
	c.addTime(j.TTL, workqLife)
	if j.Delay > 0 {
		c.out = time.Now().Add(j.Delay).UTC().AppendFormat(c.out, "2006-01-02T15:04:05Z ")
	}
	c.out = strconv.AppendInt(c.out, int64(len(j.Body)), 10)
	c.addFlags(j)
	c.add("\r\n")
	c.out = append(c.out, j.Body...)
	c.add("\r\n")
}

// addTime appends a time in milliseconds, or one in its place if it is zero.
func (c *Workq) addTime(d, otherwise time.Duration) {
	if d == 0 {
		d = otherwise
	}
	c.out = append(strconv.AppendInt(c.out, d.Milliseconds(), 10), ' ')
}

func (c *Workq) addFlags(j *Job) {
	if j.Level != 0 {
		c.out = fmt.Appendf(c.out, " -priority=%d", j.Level)
	}
	if j.Tries > 0 {
		c.out = fmt.Appendf(c.out, " -max-attempts=%d -max-fails=%d", j.Tries, j.Tries)
	}
	if j.Group != "" {
		c.add(" -group=", j.Group)
	}
	if j.Trace != "" {
		c.add(" -traceparent=", j.Trace)
	}
}

// reply reads a line that begins with OK, and is valid until the next read.
func (c *Workq) reply() ([]byte, error) {
	line, err := c.line()
	switch {
	case err != nil || bytes.HasPrefix(line, []byte("+OK")):
		return line, err
	case bytes.HasPrefix(line, []byte("-")):
		return nil, RefusedError(line[1:])
	}
	return nil, fmt.Errorf("reply %q", line)
}

// Call sends a command with its block, if it has one, and returns the first line of the reply, which may come after a
// wait.
func (c *Workq) Call(wait time.Duration, line string, block ...string) (string, error) {
	c.add(line, "\r\n")
	for _, b := range block {
		c.add(b, "\r\n")
	}
	if err := c.send(wait); err != nil {
		return "", err
	}
	reply, err := c.reply()
	return string(reply), err
}

// What says that there is no job.
const (
	errWorkqTimeout  = RefusedError("TIMEOUT")
	errWorkqNotFound = RefusedError("NOT-FOUND")
)

// Fetch implements Client.
func (c *Workq) Fetch(queue string, wait time.Duration) (j Fetched, ok bool, err error) {
	c.add("lease ", queue, " ")
	c.out = strconv.AppendInt(c.out, wait.Milliseconds(), 10)
	c.add("\r\n")
	if err := c.send(wait); err != nil {
		return j, false, err
	}
	if _, err = c.reply(); err != nil {
		if errors.Is(err, errWorkqTimeout) || errors.Is(err, errWorkqNotFound) {
			err = nil
		}
		return j, false, err
	}
	words, body, err := c.item()
	return Fetched{words, body}, err == nil, err
}

// item reads a line whose first word is an id and whose last is the size of the block that follows.
func (c *Workq) item() (id, block []byte, err error) {
	line, err := c.line()
	if err != nil {
		return nil, nil, err
	}
	id, _, ok := bytes.Cut(line, []byte(" "))
	if !ok {
		return nil, nil, fmt.Errorf("item %q", line)
	}
	c.id = append(c.id[:0], id...)
	n, err := number(line[bytes.LastIndexByte(line, ' ')+1:])
	if err != nil {
		return nil, nil, err
	}
	block, err = c.text(n)
	return c.id, block, err
}

// Ack implements Client. The job is kept with its empty result until its time to live ends or it is deleted.
func (c *Workq) Ack(_ string, id []byte) error { return c.settle("complete ", id, " 0\r\n\r\n") }

// Fail implements Client.
func (c *Workq) Fail(_ string, id []byte) error { return c.settle("fail ", id, " 0\r\n\r\n") }

// Delete deletes a job, finished or not.
func (c *Workq) Delete(id []byte) error { return c.settle("delete ", id, "\r\n") }

func (c *Workq) settle(verb string, id []byte, rest string) error {
	c.add(verb)
	c.out = append(c.out, id...)
	c.add(rest)
	if err := c.send(0); err != nil {
		return err
	}
	_, err := c.reply()
	return err
}

// Item is one thing that inspect shows.
type Item struct {
	Label string
	Keys  map[string]string
}

// Inspect returns the items of an inspect command, given without that word.
func (c *Workq) Inspect(what string) ([]Item, error) {
	reply, err := c.Call(0, "inspect "+what)
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(strings.TrimPrefix(reply, "+OK "))
	if err != nil {
		return nil, fmt.Errorf("reply %q: %w", reply, err)
	}
	items := make([]Item, 0, min(n, 100))
	for range n {
		item, err := c.inspected()
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}

func (c *Workq) inspected() (Item, error) {
	header, err := c.line()
	if err != nil {
		return Item{}, err
	}
	label, count, _ := strings.Cut(string(header), " ")
	keys, err := strconv.Atoi(count)
	if err != nil {
		return Item{}, fmt.Errorf("header %q: %w", header, err)
	}
	item := Item{Label: label, Keys: make(map[string]string)}
	for range keys {
		key, err := c.in.ReadString(' ')
		if err != nil {
			return Item{}, err
		}
		key = strings.TrimSuffix(key, " ")
		var value []byte
		if key != "payload" {
			value, err = c.line()
		} else if n, bad := strconv.Atoi(item.Keys["payload-size"]); bad == nil { // the key before it
			value, err = c.text(n)
		}
		if err != nil {
			return Item{}, err
		}
		item.Keys[key] = string(value)
	}
	return item, nil
}

// Look implements Client.
func (c *Workq) Look(queue string) (Sight, error) {
	s := Sight{Held: Untold, Dead: Untold}
	items, err := c.Inspect("queue " + queue)
	if errors.Is(err, errWorkqNotFound) {
		return s, nil
	}
	if err != nil || len(items) != 1 {
		return s, fmt.Errorf("inspect queue shows %d items: %w", len(items), err)
	}
	if s.Ready, err = strconv.Atoi(items[0].Keys["ready-len"]); err == nil {
		s.Delayed, err = strconv.Atoi(items[0].Keys["scheduled-len"])
	}
	return s, err
}
