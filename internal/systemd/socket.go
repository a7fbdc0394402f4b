package systemd

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
)

const (
	// firstSocket is the descriptor at which those that systemd hands over begin.
	firstSocket = 3
	// socketCountMax is far above what anybody configures, and below what would make
	// a mistaken number expensive.
	socketCountMax = 4096
	// unnamed is what sd_listen_fds_with_names calls a socket without a name.
	unnamed = "unknown"
)

// Socket is a socket that systemd has opened for this service.
type Socket struct {
	name string
	file *os.File
}

// inherit takes over the sockets, so that no child of this process has them too.
func inherit(env map[string]string) ([]Socket, error) {
	if !mine(env, "LISTEN_PID") {
		return nil, nil
	}
	count, err := strconv.Atoi(env["LISTEN_FDS"])
	if err != nil || count < 0 || count > socketCountMax {
		return nil, fmt.Errorf("LISTEN_FDS: %q is not a number of sockets", env["LISTEN_FDS"])
	}
	var names []string
	if text, given := env["LISTEN_FDNAMES"]; given && text != "" {
		names = strings.Split(text, ":")
		if len(names) != count {
			return nil, fmt.Errorf("LISTEN_FDNAMES has %d names for %d sockets", len(names), count)
		}
	}
	sockets := make([]Socket, count)
	for i := range sockets {
		name := unnamed
		if names != nil {
			name = names[i]
		}
		file, err := takeOver(firstSocket+i, name)
		if err != nil {
			return nil, err
		}
		sockets[i] = Socket{name: name, file: file}
	}
	return sockets, nil
}

// Take returns the listeners of all sockets with a name, in systemd's order. They are
// the caller's from then on.
func (s *Service) Take(name string) ([]*net.TCPListener, error) {
	var taken []Socket
	s.sockets = slices.DeleteFunc(s.sockets, func(socket Socket) bool {
		if socket.name == name {
			taken = append(taken, socket)
		}
		return socket.name == name
	})
	listeners := make([]*net.TCPListener, 0, len(taken))
	var errs []error
	for _, socket := range taken {
		l, err := socket.listener()
		if err != nil {
			errs = append(errs, err)
			continue
		}
		listeners = append(listeners, l)
	}
	if err := errors.Join(errs...); err != nil {
		for _, l := range listeners {
			err = errors.Join(err, l.Close())
		}
		return nil, err
	}
	return listeners, nil
}

// listener makes a listener of the socket, whose descriptor it closes: the listener
// has one of its own.
func (s Socket) listener() (*net.TCPListener, error) {
	l, err := net.FileListener(s.file)
	err = errors.Join(err, s.file.Close())
	if err != nil {
		return nil, fmt.Errorf("socket %q: %w: use ListenStream= with an address and a port", s.name, err)
	}
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		return nil,
			errors.Join(fmt.Errorf("socket %q listens on %s, which is no TCP address: use ListenStream= with an "+
				"address and a port",
				s.name, l.Addr()), l.Close())
	}
	return tcp, nil
}

// Left returns the names of the sockets that nobody has taken.
func (s *Service) Left() []string {
	names := make([]string, 0, len(s.sockets))
	for _, socket := range s.sockets {
		names = append(names, socket.name)
	}
	return names
}
