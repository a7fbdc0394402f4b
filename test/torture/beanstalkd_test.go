package torture

import (
	"fmt"
	"strings"
	"time"
)

// beanstalkdClient speaks beanstalkd: a line of words, some with a block behind it. Which tubes it uses and watches is
// a matter of the connection.
type beanstalkdClient struct {
	*link
	used, watched string
}

// beanstalkdLease is the time to run of jobs pushed through beanstalkd.
const beanstalkdLease = 5 * time.Second

func (c *beanstalkdClient) push(queue string, tokens ...string) error {
	return c.put(queue, beanstalkdLease, tokens...)
}

func (c *beanstalkdClient) put(queue string, lease time.Duration, tokens ...string) error {
	if c.used != queue {
		c.printf("use %s\r\n", queue)
		if err := c.answered("USING"); err != nil {
			return err
		}
		c.used = queue
	}
	for _, t := range tokens {
		body := `"` + bodyOf(t) + `"`
		c.printf("put 0 0 %d %d\r\n%s\r\n", int(lease.Seconds()), len(body), body)
	}
	if err := c.send(0); err != nil {
		return err
	}
	for range tokens {
		if _, err := c.reply("INSERTED"); err != nil {
			return err
		}
	}
	return nil
}

// answered sends what has been printed and reads a reply that must begin with a word.
func (c *beanstalkdClient) answered(word string) error {
	if err := c.send(0); err != nil {
		return err
	}
	_, err := c.reply(word)
	return err
}

// reply returns the words of a reply, which is a refusal unless it begins with a word.
func (c *beanstalkdClient) reply(word string) ([]string, error) {
	line, err := c.line()
	if err != nil {
		return nil, err
	}
	words := strings.Fields(line)
	if len(words) == 0 || words[0] != word {
		return nil, &refusedError{line}
	}
	return words, nil
}

// watch watches one tube and no other.
func (c *beanstalkdClient) watch(queue string) error {
	if c.watched == queue {
		return nil
	}
	c.printf("watch %s\r\n", queue)
	if err := c.answered("WATCHING"); err != nil {
		return err
	}
	if c.watched == "" {
		c.watched = "default"
	}
	c.printf("ignore %s\r\n", c.watched)
	c.watched = queue
	return c.answered("WATCHING")
}

func (c *beanstalkdClient) fetch(queue string, wait time.Duration) (delivery, bool, error) {
	if err := c.watch(queue); err != nil {
		return delivery{}, false, err
	}
	c.printf("reserve-with-timeout %d\r\n", int((wait+time.Second-1)/time.Second))
	if err := c.send(wait + time.Second); err != nil {
		return delivery{}, false, err
	}
	line, err := c.line()
	if err != nil || line == "TIMED_OUT" || line == "DEADLINE_SOON" {
		return delivery{}, false, err
	}
	words := strings.Fields(line)
	if len(words) != 3 || words[0] != "RESERVED" {
		return delivery{}, false, &refusedError{line}
	}
	size, err := count(words[2])
	if err != nil {
		return delivery{}, false, err
	}
	block, err := c.block(size)
	if err != nil {
		return delivery{}, false, err
	}
	body, err := quoted(block)
	return delivery{id: words[1], body: body}, err == nil, err
}

func (c *beanstalkdClient) ack(_, id string) error {
	c.printf("delete %s\r\n", id)
	return c.answered("DELETED")
}

func (c *beanstalkdClient) fail(_, id string) error {
	c.printf("release %s 0 0\r\n", id)
	return c.answered("RELEASED")
}

// ready returns the number of ready jobs of a queue, and that of those in somebody's hands.
func (c *beanstalkdClient) ready(queue string) (ready, held int, err error) {
	c.printf("stats-tube %s\r\n", queue)
	if err := c.send(0); err != nil {
		return 0, 0, err
	}
	line, err := c.line()
	switch {
	case err != nil:
		return 0, 0, err
	case line == "NOT_FOUND":
		return 0, 0, nil // nobody has pushed to it yet
	}
	size, found := strings.CutPrefix(line, "OK ")
	if !found {
		return 0, 0, &refusedError{line}
	}
	n, err := count(size)
	if err != nil {
		return 0, 0, err
	}
	stats, err := c.block(n)
	if err != nil {
		return 0, 0, err
	}
	if _, err := fmt.Sscanf(stats[strings.Index(stats, "current-jobs-ready"):], "current-jobs-ready: %d\ncurrent-jobs-reserved: %d\n", &ready, &held); err != nil {
		return 0, 0, fmt.Errorf("statistics %q: %w", stats, err)
	}
	return ready, held, nil
}
