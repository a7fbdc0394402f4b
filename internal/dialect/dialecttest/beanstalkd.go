package dialecttest

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/dialect/beanstalkd"
	"millrace/internal/wire"
)

// Beanstalkd drives the beanstalkd protocol.
func Beanstalkd() Driver {
	return Driver{
		Name: "beanstalkd",
		New: func(s Settings) dialect.Dialect {
			return beanstalkd.New(beanstalkd.Options{Options: s.Options, MaxJob: s.MaxCommand})
		},
		Client: wired("beanstalkd", inspectBeanstalkd),
		Hello:  shake("beanstalkd"),
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

// onlyOther returns the command for a queue that is not the one that the handshake has chosen.
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

func inspectBeanstalkd(c *wire.Beanstalkd, _, id string) (string, error) {
	stats, err := c.Stats("stats-job " + id)
	if err != nil {
		return "", err
	}
	if stats["id"] != id || stats["state"] != "reserved" {
		return "", fmt.Errorf("stats-job %s shows %v", id, stats)
	}
	j, err := c.Peek(id)
	return string(j.Body), err
}
