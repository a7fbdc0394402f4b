// Package statsd sends gauges to a statsd or DogStatsD collector, over UDP or a Unix datagram socket. It has no part in
// the work of the server: it runs on a goroutine of its own, and a collector that is gone or slow costs a counter.
package statsd

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	// Interval is the time from one report to the next.
	Interval = 30 * time.Second
	// packetMax is how much of a packet fits into an Ethernet frame, with room for headers of tunnels.
	packetMax = 1432
	// patience bounds how long a report may take: a name server may be silent, and the buffer of a socket full.
	patience = time.Second
	// valueMax is the length in bytes of the longest value of a tag; Datadog cuts tags off there, too.
	valueMax = 200
)

// Options say where reports go and what they have in common. Together the namespace and the tags must leave room for a
// gauge in a packet, which the configuration sees to.
type Options struct {
	Network, Addr string // as for net.Dial
	Namespace     string // what the name of every gauge begins with
	Tags          []string
	Logger        *slog.Logger
}

// Gauge is one figure.
type Gauge struct {
	Name  string
	Value float64
	Tags  []string // made with Tag
}

// Tag makes a tag of a name that clients may have chosen. What a collector would not understand becomes an underscore.
func Tag(key, value string) string {
	value = strings.Map(func(r rune) rune {
		if r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r)) || strings.ContainsRune("_-.:/", r) {
			return r
		}
		return '_'
	}, value)
	if len(value) > valueMax {
		value = strings.ToValidUTF8(value[:valueMax], "") // half of a letter at the end goes
	}
	return key + ":" + value
}

// Sender sends reports.
type Sender struct {
	o        Options
	failures atomic.Uint64
}

// New returns a sender; nothing runs yet.
func New(o Options) *Sender { return &Sender{o: o} }

// Failures returns how many reports were not sent, or not as a whole.
func (s *Sender) Failures() uint64 { return s.failures.Load() }

// Run reports what read returns, at once and then at every interval, until ctx ends.
func (s *Sender) Run(ctx context.Context, read func() ([]Gauge, error)) {
	t := time.NewTicker(Interval)
	defer t.Stop()
	for told := false; ; {
		if err := s.report(ctx, read); err != nil && ctx.Err() == nil {
			s.failures.Add(1)
			if !told {
				told = true
				s.o.Logger.Warn("statsd: report not sent; the next is tried as usual, and from now on "+
					"failures are only counted",
					slog.String("addr", s.o.Addr), slog.Any("error", err))
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// report sends one report. It finds the collector each time, because that may have moved.
func (s *Sender) report(ctx context.Context, read func() ([]Gauge, error)) error {
	gauges, err := read()
	if err != nil {
		return fmt.Errorf("read figures: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, err := new(net.Dialer).DialContext(ctx, s.o.Network, s.o.Addr)
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // nothing is left to be sent
	if err := c.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	packet := make([]byte, 0, 2*packetMax)
	for i := range gauges {
		end := len(packet)
		packet = s.line(packet, &gauges[i])
		if len(packet) > packetMax && end > 0 {
			if _, err := c.Write(packet[:end]); err != nil {
				return err
			}
			packet = append(packet[:0], packet[end+1:]...) // without the line end that parts them
		}
	}
	_, err = c.Write(packet)
	return err
}

// line appends a gauge to a packet.
func (s *Sender) line(to []byte, g *Gauge) []byte {
	if len(to) > 0 {
		to = append(to, '\n')
	}
	to = append(append(append(to, s.o.Namespace...), g.Name...), ':')
	to = append(strconv.AppendFloat(to, g.Value, 'f', -1, 64), "|g"...)
	sep := "|#"
	for _, list := range [][]string{s.o.Tags, g.Tags} {
		for _, tag := range list {
			to = append(append(to, sep...), tag...)
			sep = ","
		}
	}
	return to
}
