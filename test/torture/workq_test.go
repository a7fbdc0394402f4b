package torture

import (
	"fmt"
	"strings"
	"time"
)

// workqClient speaks Workq: a line of words, some with a block behind it.
type workqClient struct{ *link }

const (
	// workqLease is the time to run of jobs pushed through Workq.
	workqLease = 5 * time.Second
	// workqLife is their time to live, longer than any run.
	workqLife = 24 * time.Hour
)

func (c *workqClient) push(queue string, tokens ...string) error {
	return c.add(queue, workqLease, tokens...)
}

func (c *workqClient) add(queue string, lease time.Duration, tokens ...string) error {
	for _, t := range tokens {
		body := `"` + bodyOf(t) + `"`
		c.printf("add %s %s %d %d %d -max-fails=255\r\n%s\r\n", uuidOf(t), queue, lease.Milliseconds(), workqLife.Milliseconds(), len(body), body)
	}
	if err := c.send(0); err != nil {
		return err
	}
	for range tokens {
		if err := c.ok(); err != nil {
			return err
		}
	}
	return nil
}

// ok reads a reply that has no more to say than that.
func (c *workqClient) ok() error {
	line, err := c.line()
	switch {
	case err != nil:
		return err
	case strings.HasPrefix(line, "-"):
		return &refusedError{line}
	case line != "+OK":
		return fmt.Errorf("got %q", line)
	}
	return nil
}

func (c *workqClient) fetch(queue string, wait time.Duration) (delivery, bool, error) {
	c.printf("lease %s %d\r\n", queue, wait.Milliseconds())
	if err := c.send(wait); err != nil {
		return delivery{}, false, err
	}
	line, err := c.line()
	switch {
	case err != nil:
		return delivery{}, false, err
	case line == "-TIMEOUT", line == "-NOT-FOUND":
		return delivery{}, false, nil
	case line != "+OK 1":
		return delivery{}, false, &refusedError{line}
	}
	if line, err = c.line(); err != nil {
		return delivery{}, false, err
	}
	words := strings.Fields(line)
	if len(words) != 4 {
		return delivery{}, false, fmt.Errorf("leased %q", line)
	}
	size, err := count(words[3])
	if err != nil {
		return delivery{}, false, err
	}
	block, err := c.block(size)
	if err != nil {
		return delivery{}, false, err
	}
	body, err := quoted(block)
	return delivery{id: words[0], body: body}, err == nil, err
}

func (c *workqClient) ack(_, id string) error { return c.settle("complete %s 0\r\n\r\n", id) }

func (c *workqClient) fail(_, id string) error { return c.settle("fail %s 0\r\n\r\n", id) }

// remove deletes a job, finished or not.
func (c *workqClient) remove(id string) error { return c.settle("delete %s\r\n", id) }

func (c *workqClient) settle(format, id string) error {
	c.printf(format, id)
	if err := c.send(0); err != nil {
		return err
	}
	return c.ok()
}

// ready returns the number of ready jobs of a queue.
func (c *workqClient) ready(queue string) (int, error) {
	c.printf("inspect queue %s\r\n", queue)
	if err := c.send(0); err != nil {
		return 0, err
	}
	line, err := c.line()
	switch {
	case err != nil:
		return 0, err
	case line == "-NOT-FOUND":
		return 0, nil // nobody has pushed to it yet
	case line != "+OK 1":
		return 0, &refusedError{line}
	}
	n := -1
	for range 3 { // the header and two keys
		if line, err = c.line(); err != nil {
			return 0, err
		}
		if value, found := strings.CutPrefix(line, "ready-len "); found {
			if n, err = count(value); err != nil {
				return 0, err
			}
		}
	}
	if n < 0 {
		return 0, fmt.Errorf("no ready-len for %s", queue)
	}
	return n, nil
}
