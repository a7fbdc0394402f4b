package dialecttest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/dialect/beanstalkd"
	"millrace/internal/dialect/beanstalkd/beanstalkdtest"
)

// Beanstalkd drives the beanstalkd protocol.
func Beanstalkd() Driver {
	return Driver{
		Name: "beanstalkd",
		New: func(s Settings) dialect.Dialect {
			return beanstalkd.New(beanstalkd.Options{
				Options: dialect.Options{Engine: s.Engine, Namespace: s.Namespace, WriteTimeout: s.WriteTimeout},
				MaxJob:  s.MaxCommand,
			})
		},
		Client: func(conn net.Conn) (Client, error) { return beanstalkdClient{beanstalkdtest.New(conn)}, nil },
		Hello:  chooseTube,
		Push: func(name, body string) []byte {
			return fmt.Appendf(onlyOther(name, "use "+name+"\r\n"), "put 0 0 60 %d\r\n%s\r\n", len(body), body)
		},
		Fetch: func(name string, wait time.Duration) []byte {
			seconds := (wait + time.Second - 1) / time.Second
			return fmt.Appendf(onlyOther(name, "watch "+name+"\r\n"), "reserve-with-timeout %d\r\n", seconds)
		},
		ReadReply: readBeanstalkdReply,
		AnyBytes:  true,
		Abilities: Abilities{Low: true, Delay: true},
		End:       EndNone,
		Alone:     true,
	}
}

// chooseTube has a connection use and watch the queue of the common cases.
func chooseTube(conn net.Conn) (*bufio.Reader, error) {
	c := beanstalkdtest.New(conn)
	if err := c.Use(queue); err != nil {
		return nil, err
	}
	return bufio.NewReader(conn), c.Watch(queue) // which has read its replies, and there are no others
}

// onlyOther returns the command for a queue that is not the one of chooseTube.
func onlyOther(name, command string) []byte {
	if name == queue {
		return nil
	}
	return []byte(command)
}

// readBeanstalkdReply reads the reply to what Push or Fetch has sent: those of the commands that choose a tube are
// passed over.
func readBeanstalkdReply(r *bufio.Reader) (bool, error) {
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return false, err
		}
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
			return false, fmt.Errorf("reply %q", line)
		case words[0] == "USING", words[0] == "WATCHING":
			continue
		case words[0] != "RESERVED":
			return words[0] == "INSERTED", nil
		}
		size, err := strconv.Atoi(words[len(words)-1])
		if err != nil {
			return false, err
		}
		_, err = io.CopyN(io.Discard, r, int64(size)+2)
		return true, err
	}
}

type beanstalkdClient struct{ *beanstalkdtest.Client }

func (c beanstalkdClient) Push(queue, body string) error { return c.PushWith(queue, body, Wishes{}) }

func (c beanstalkdClient) PushWith(queue, body string, w Wishes) error {
	j := beanstalkdtest.Job{TTR: time.Minute, Delay: w.Delay, Body: []byte(body)}
	if w.Level < 0 {
		j.Priority = uint32(-w.Level) //nolint:gosec // a small number
	}
	_, err := c.Put(queue, j)
	return err
}

func (c beanstalkdClient) FetchFail(string) error { return ErrUnable }

func (c beanstalkdClient) Inspect(handle string) (string, error) {
	stats, err := c.Stats("stats-job " + handle)
	if err != nil {
		return "", err
	}
	if stats["id"] != handle || stats["state"] != "reserved" {
		return "", fmt.Errorf("stats-job %s shows %v", handle, stats)
	}
	id, err := strconv.ParseUint(handle, 10, 64)
	if err != nil {
		return "", err
	}
	j, err := c.Peek(id)
	return string(j.Body), err
}

func (c beanstalkdClient) Look(queue string) (Sight, error) {
	stats, err := c.Stats("stats-tube " + queue)
	if errors.Is(err, beanstalkdtest.ErrNotFound) {
		return Sight{}, nil
	}
	if err != nil {
		return Sight{}, err
	}
	var s Sight
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

func (c beanstalkdClient) Fetch(queue string, wait time.Duration) (Task, error) {
	j, err := c.Reserve(queue, wait)
	if errors.Is(err, beanstalkdtest.ErrTimedOut) {
		err = ErrEmpty
	}
	return Task{Handle: strconv.FormatUint(j.ID, 10), Body: string(j.Body)}, err
}

func (c beanstalkdClient) Ack(handle string) error {
	id, err := strconv.ParseUint(handle, 10, 64)
	if err != nil {
		return err
	}
	return c.Delete(id)
}
