package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"millrace/internal/config"
	"millrace/internal/systemd"
)

// bind opens the sockets of all listeners.
func (s *server) bind(ctx context.Context) error {
	for rest := s.cfg.Listeners(); len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].Key.Name == rest[0].Key.Name {
			n++
		}
		gates, err := s.bindKey(ctx, rest[:n])
		for i, g := range gates {
			g.name = fmt.Sprintf("%s/%d", g.config.Key.Name, i)
		}
		s.gates = append(s.gates, gates...) // also with an error: close closes them
		if err != nil {
			return err
		}
		rest = rest[n:]
	}
	if left := s.systemd.Left(); len(left) > 0 {
		// Whoever connects there would wait in vain.
		return fmt.Errorf("systemd hands over a socket named %q, which is the key of no listener that is on: set "+
			"FileDescriptorName= to one of %s",
			left[0], strings.Join(s.keys(), ", "))
	}
	return nil
}

// bindKey opens the sockets of the listeners of one key. If systemd has sockets of that
// name, they stand in for all its addresses.
func (s *server) bindKey(ctx context.Context, listeners []config.Listener) ([]*gate, error) {
	key := listeners[0].Key
	sockets, err := s.systemd.Take(key.Name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key.Name, err)
	}
	gates := make([]*gate, 0, len(listeners))
	if len(sockets) == 0 {
		for _, l := range listeners {
			g, err := s.listen(ctx, l)
			if err != nil {
				return gates, err
			}
			gates = append(gates, g)
		}
		return gates, nil
	}
	if len(sockets) != len(listeners) {
		err := fmt.Errorf("%s: systemd hands over %d sockets of that name, but the key has %d "+
			"addresses: give it as many",
			key.Name, len(sockets), len(listeners))
		for _, socket := range sockets {
			err = errors.Join(err, socket.Close())
		}
		return nil, err
	}
	for i, l := range listeners {
		l.Addr = sockets[i].Addr().String()
		g := s.newGate(sockets[i], l)
		g.activated = true
		gates = append(gates, g)
		if reach := l.CheckReach(); reach != nil && !s.cfg.Listen.Insecure {
			err = errors.Join(err, fmt.Errorf("socket from systemd, whose ListenStream= counts: %w", reach))
		}
	}
	return gates, err
}

// keys returns the names of the keys whose listeners are on.
func (s *server) keys() []string {
	var names []string
	for _, l := range s.cfg.Listeners() {
		if n := len(names); n == 0 || names[n-1] != l.Key.Name {
			names = append(names, l.Key.Name)
		}
	}
	return names
}

// tell tells systemd how the server stands. A message that does not arrive is no reason
// to stop serving.
func (s *server) tell(states ...string) {
	if err := s.systemd.Notify(states...); err != nil {
		s.log.Warn("cannot notify systemd", slog.Any("error", err))
	}
}

// watchdog tells systemd regularly that the server is alive: that the engine can be had,
// not only that a timer still fires. It returns what ends that.
func (s *server) watchdog() (stop func()) {
	interval := s.systemd.WatchdogInterval()
	if interval <= 0 {
		return func() {}
	}
	stopping, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-stopping:
				return
			case <-tick.C:
				s.engine.Stats() // waits for its lock
				s.tell(systemd.Alive)
			}
		}
	}()
	return func() {
		close(stopping)
		waitFor(ended, closeGrace)
	}
}
