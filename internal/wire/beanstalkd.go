package wire

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Beanstalkd speaks the protocol of beanstalkd: a line of words, some with a block behind it. Which tubes it uses and
// watches is a matter of the connection.
type Beanstalkd struct {
	*link
	used, watched string
	id            []byte // of the job reserved last
}

// beanstalkdLease is the time to run of jobs that say nothing about it.
const beanstalkdLease = time.Minute

func newBeanstalkd(l *link, o Options) (Client, error) {
	c := &Beanstalkd{link: l, used: "default", watched: "default"}
	if o.Queue == "" {
		return c, nil
	}
	return c, errors.Join(c.Use(o.Queue), c.Watch(o.Queue))
}

// reply reads a line whose first word must be the one that is wanted, and returns the rest of it, which is valid until
// the next read.
func (c *Beanstalkd) reply(want string) ([]byte, error) {
	line, err := c.line()
	if err != nil {
		return nil, err
	}
	word, rest, _ := bytes.Cut(line, []byte(" "))
	if string(word) != want {
		return nil, RefusedError(line)
	}
	return rest, nil
}

// Call sends a command with its body, if it has one, and returns what follows the wanted word in the first line of the
// reply, which may come after a wait.
func (c *Beanstalkd) Call(wait time.Duration, want, line string, body ...string) (string, error) {
	c.add(line, "\r\n")
	for _, b := range body {
		c.add(b, "\r\n")
	}
	if err := c.send(wait); err != nil {
		return "", err
	}
	rest, err := c.reply(want)
	return string(rest), err
}

// Use has jobs put into a tube.
func (c *Beanstalkd) Use(tube string) error {
	if tube == c.used {
		return nil
	}
	_, err := c.Call(0, "USING", "use "+tube)
	if err == nil {
		c.used = tube
	}
	return err
}

// Watch watches one tube and no other.
func (c *Beanstalkd) Watch(tube string) error {
	if tube == c.watched {
		return nil
	}
	_, err := c.Call(0, "WATCHING", "watch "+tube)
	if err == nil {
		_, err = c.Call(0, "WATCHING", "ignore "+c.watched)
	}
	if err == nil {
		c.watched = tube
	}
	return err
}

// Push implements Client.
func (c *Beanstalkd) Push(queue string, jobs ...Job) error {
	if err := c.Use(queue); err != nil {
		return err
	}
	for i := range jobs {
		c.addPut(&jobs[i])
	}
	if err := c.send(0); err != nil {
		return err
	}
	for range jobs {
		if _, err := c.reply("INSERTED"); err != nil {
			return err
		}
	}
	return nil
}

func (c *Beanstalkd) addPut(j *Job) {
	c.add("put ")
	c.addNumber(int64(max(0, -j.Level))) // none is above the one that others have
	c.addNumber(seconds(j.Delay))
	lease := j.Lease
	if lease == 0 {
		lease = beanstalkdLease
	}
	c.addNumber(seconds(lease))
	c.out = strconv.AppendInt(c.out, int64(len(j.Body)), 10)
	c.add("\r\n")
	c.out = append(c.out, j.Body...)
	c.add("\r\n")
}

func (c *Beanstalkd) addNumber(n int64) { c.out = append(strconv.AppendInt(c.out, n, 10), ' ') }

// Fetch implements Client.
func (c *Beanstalkd) Fetch(queue string, wait time.Duration) (j Fetched, ok bool, err error) {
	if err := c.Watch(queue); err != nil {
		return j, false, err
	}
	c.add("reserve-with-timeout ")
	c.out = strconv.AppendInt(c.out, seconds(wait), 10)
	c.add("\r\n")
	if err := c.send(wait + time.Second); err != nil {
		return j, false, err
	}
	rest, err := c.reply("RESERVED")
	if err != nil {
		if errors.Is(err, RefusedError("TIMED_OUT")) || errors.Is(err, RefusedError("DEADLINE_SOON")) {
			err = nil
		}
		return j, false, err
	}
	return c.job(rest)
}

// job reads the job whose id and size are told.
func (c *Beanstalkd) job(rest []byte) (j Fetched, ok bool, err error) {
	id, size, _ := bytes.Cut(rest, []byte(" "))
	c.id = append(c.id[:0], id...)
	n, err := number(size)
	if err != nil {
		return j, false, err
	}
	body, err := c.text(n)
	return Fetched{c.id, body}, err == nil, err
}

// Peek returns a job by its id.
func (c *Beanstalkd) Peek(id string) (Fetched, error) {
	rest, err := c.Call(0, "FOUND", "peek "+id)
	if err != nil {
		return Fetched{}, err
	}
	j, _, err := c.job([]byte(rest))
	return j, err
}

// Ack implements Client: it deletes the job.
func (c *Beanstalkd) Ack(_ string, id []byte) error {
	c.add("delete ")
	return c.settle(id, "\r\n", "DELETED")
}

// Fail implements Client: it releases the job.
func (c *Beanstalkd) Fail(_ string, id []byte) error {
	c.add("release ")
	return c.settle(id, " 0 0\r\n", "RELEASED")
}

func (c *Beanstalkd) settle(id []byte, rest, want string) error {
	c.out = append(c.out, id...)
	c.add(rest)
	if err := c.send(0); err != nil {
		return err
	}
	_, err := c.reply(want)
	return err
}

// Stats returns what one of the stats commands tells, without quotes.
func (c *Beanstalkd) Stats(command string) (map[string]string, error) {
	size, err := c.Call(0, "OK", command)
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(size)
	if err != nil {
		return nil, err
	}
	data, err := c.text(n)
	stats := map[string]string{}
	for line := range strings.Lines(string(data)) {
		if key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ": "); ok {
			stats[key] = strings.Trim(value, `"`)
		}
	}
	return stats, err
}

// Look implements Client.
func (c *Beanstalkd) Look(queue string) (s Sight, err error) {
	stats, err := c.Stats("stats-tube " + queue)
	if err != nil {
		if errors.Is(err, RefusedError("NOT_FOUND")) {
			err = nil
		}
		return s, err
	}
	for key, n := range map[string]*int{
		"current-jobs-ready": &s.Ready, "current-jobs-delayed": &s.Delayed, "current-jobs-reserved": &s.Held,
		"current-jobs-buried": &s.Dead,
	} {
		if *n, err = strconv.Atoi(stats[key]); err != nil {
			return s, fmt.Errorf("%s: %w", key, err)
		}
	}
	return s, nil
}
