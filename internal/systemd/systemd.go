package systemd

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// What a service can tell about itself; Status makes one more.
const (
	Ready    = "READY=1"    // everything is served
	Stopping = "STOPPING=1" // it will end by itself
	Alive    = "WATCHDOG=1" // asked for every WatchdogInterval
)

// Status is a line of text that systemctl status shows.
func Status(text string) string { return "STATUS=" + strings.ReplaceAll(text, "\n", " ") }

// Service is this process as systemd sees it. The zero Service was started by
// something else.
type Service struct {
	notify   *net.UnixConn // nil if nobody listens
	watchdog time.Duration
	sockets  []Socket
}

// Attach reads what systemd has put into the environment.
func Attach(environ []string) (*Service, error) {
	env := make(map[string]string)
	for _, entry := range environ {
		if name, value, ok := strings.Cut(entry, "="); ok {
			env[name] = value
		}
	}
	var s Service
	var errs [3]error
	s.sockets, errs[0] = inherit(env)
	s.watchdog, errs[1] = watchdog(env)
	s.notify, errs[2] = dial(env["NOTIFY_SOCKET"])
	if err := errors.Join(errs[:]...); err != nil {
		return nil, errors.Join(fmt.Errorf("environment of a systemd service: %w", err), s.Close())
	}
	return &s, nil
}

// mine reports whether a variable that is meant for one process is meant for this one.
func mine(env map[string]string, variable string) bool {
	pid, given := env[variable]
	return given && pid == strconv.Itoa(os.Getpid())
}

func watchdog(env map[string]string) (time.Duration, error) {
	text, given := env["WATCHDOG_USEC"]
	if _, named := env["WATCHDOG_PID"]; !given || named && !mine(env, "WATCHDOG_PID") {
		return 0, nil
	}
	usec, err := strconv.ParseInt(text, 10, 64)
	if err != nil || usec <= 0 || usec > int64(time.Duration(1<<63-1)/time.Microsecond) {
		return 0, fmt.Errorf("WATCHDOG_USEC: %q is not a number of microseconds", text)
	}
	return time.Duration(usec) * time.Microsecond, nil
}

func dial(name string) (*net.UnixConn, error) {
	if name == "" {
		return nil, nil
	}
	if name[0] != '/' && name[0] != '@' {
		return nil, fmt.Errorf("NOTIFY_SOCKET: %q is neither a path nor an abstract socket", name)
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		return nil, fmt.Errorf("NOTIFY_SOCKET: %w", err)
	}
	return conn, nil
}

// notifyPatience bounds how long a message may wait for room in systemd's queue.
const notifyPatience = time.Second

// Notify tells systemd all of the states at once.
func (s *Service) Notify(states ...string) error {
	if s.notify == nil {
		return nil
	}
	err := s.notify.SetWriteDeadline(time.Now().Add(notifyPatience))
	if err == nil {
		_, err = s.notify.Write([]byte(strings.Join(states, "\n")))
	}
	if err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	return nil
}

// WatchdogInterval is how often to tell that the service is Alive: twice as often as
// systemd must hear of it. Zero means never.
func (s *Service) WatchdogInterval() time.Duration {
	if s.notify == nil {
		return 0
	}
	return s.watchdog / 2
}

// Close ends the conversation and closes the sockets that nobody has taken.
func (s *Service) Close() error {
	var errs []error
	for _, socket := range s.sockets {
		errs = append(errs, socket.file.Close())
	}
	s.sockets = nil
	if s.notify != nil {
		errs = append(errs, s.notify.Close())
		s.notify = nil
	}
	return errors.Join(errs...)
}
