package torture

import (
	"strings"
	"time"
)

// masenkoClient speaks Masenko: a line of a verb and JSON, answered by the same.
type masenkoClient struct{ *link }

// masenkoTries is the number of failures that a task outlives.
const masenkoTries = 20

func (c *masenkoClient) push(queue string, tokens ...string) error {
	if len(tokens) > 1 {
		c.printf("ATOMIC\n")
	}
	for _, t := range tokens {
		c.printf("PUSH {\"name\":\"t\",\"queue\":%q,\"retry\":%d,\"payload\":%q}\n", queue, masenkoTries, bodyOf(t))
	}
	if len(tokens) > 1 {
		c.printf("DONE\n")
	}
	_, err := c.reply(0)
	return err
}

// reply sends what has been printed and returns the reply to it.
func (c *masenkoClient) reply(wait time.Duration) (string, error) {
	if err := c.send(wait); err != nil {
		return "", err
	}
	line, err := c.line()
	if err == nil && strings.HasPrefix(line, "ERR") {
		err = &refusedError{line}
	}
	return line, err
}

func (c *masenkoClient) fetch(queue string, wait time.Duration) (delivery, bool, error) {
	c.printf("FETCH {\"queues\":[%q],\"timeout\":%q}\n", queue, max(wait, time.Millisecond))
	line, err := c.reply(wait)
	if err != nil || strings.HasPrefix(line, "EMPTY") {
		return delivery{}, false, err
	}
	var d delivery
	if d.id, err = member(line, "id"); err == nil {
		d.body, err = member(line, "payload")
	}
	return d, err == nil, err
}

func (c *masenkoClient) ack(_, id string) error {
	c.printf("ACK {\"id\":%s}\n", id)
	_, err := c.reply(0)
	return err
}

func (c *masenkoClient) fail(_, id string) error {
	c.printf("NACK {\"id\":%s}\n", id)
	_, err := c.reply(0)
	return err
}

// info returns the counts of a queue.
func (c *masenkoClient) info(queue string) (ready, delayed, held int, err error) {
	c.printf("INFO\n")
	line, err := c.reply(0)
	if err != nil {
		return 0, 0, 0, err
	}
	_, line, found := strings.Cut(line, `{"name":"`+queue+`",`)
	if !found {
		return 0, 0, 0, nil // nobody has pushed to it yet
	}
	for name, into := range map[string]*int{"ready": &ready, "delayed": &delayed, "to_ack": &held} {
		text, err := member(line, name)
		if err != nil {
			return 0, 0, 0, err
		}
		if *into, err = count(text); err != nil {
			return 0, 0, 0, err
		}
	}
	return ready, delayed, held, nil
}
