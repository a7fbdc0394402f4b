package statsd

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/testkit"
)

// collector listens for reports.
func collector(t *testing.T) net.PacketConn {
	t.Helper()
	c, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// receive returns the next packet.
func receive(t *testing.T, c net.PacketConn) string {
	t.Helper()
	b := make([]byte, 1<<16)
	n, _, err := c.ReadFrom(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(b[:n])
}

// A report comes at once and then every 30 seconds, and no more when it is stopped.
func TestRun(t *testing.T) {
	t.Parallel()
	c := collector(t)
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{
			Network: "udp", Addr: c.LocalAddr().String(), Namespace: "app.", Tags: []string{"env:test", "b"},
			Logger: slog.New(slog.DiscardHandler),
		})
		ctx, stop := context.WithCancel(t.Context())
		begun, reads := time.Now(), []time.Duration{}
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.Run(ctx, func() ([]Gauge, error) {
				reads = append(reads, time.Since(begun))
				return []Gauge{
					{Name: "processed", Value: 1e15}, {
						Name: "queue.latency", Value: 0.25,
						Tags: []string{Tag("queue", "a b")},
					},
				}, nil
			})
		}()
		<-time.After(61 * time.Second)
		stop()
		<-done
		if len(reads) != 3 || reads[0] != 0 || reads[1] != 30*time.Second || reads[2] != time.Minute {
			t.Errorf("read at %v", reads)
		}
		for range reads {
			want := "app.processed:1000000000000000|g|#env:test,b\napp.queue.latency:0.25|g|#env:test,b,queue:a_b"
			if got := receive(t, c); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		if s.Failures() != 0 {
			t.Errorf("%d failures", s.Failures())
		}
	})
}

// Many gauges go in packets that a network takes, and none is cut or lost. Without tags a line has none.
func TestPackets(t *testing.T) {
	t.Parallel()
	c := collector(t)
	s := New(Options{Network: "udp", Addr: c.LocalAddr().String()})
	var gauges []Gauge
	for i := range 100 {
		gauges = append(gauges, Gauge{Name: strings.Repeat("n", i+1), Value: float64(i)})
	}
	if err := s.report(t.Context(), func() ([]Gauge, error) { return gauges, nil }); err != nil {
		t.Fatal(err)
	}
	for next := 0; next < len(gauges); {
		packet := receive(t, c)
		if len(packet) > packetMax {
			t.Errorf("a packet of %d bytes", len(packet))
		}
		for line := range strings.SplitSeq(packet, "\n") {
			if want := string(s.line(nil, &gauges[next])); line != want || strings.Contains(line, "#") {
				t.Fatalf("line %d is %q, want %q", next, line, want)
			}
			next++
		}
	}
}

// A collector that is not there, and figures that cannot be read, are counted and told once. Reports go on.
func TestFailures(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "none.sock")
	synctest.Test(t, func(t *testing.T) {
		log := new(testkit.Buffer)
		s := New(Options{Network: "unixgram", Addr: missing, Logger: slog.New(slog.NewTextHandler(log, nil))})
		ctx, stop := context.WithCancel(t.Context())
		done, reads := make(chan struct{}), 0
		go func() {
			defer close(done)
			s.Run(ctx, func() ([]Gauge, error) {
				if reads++; reads == 2 {
					return nil, errors.New("closed")
				}
				return []Gauge{{Name: "dead"}}, nil
			})
		}()
		<-time.After(61 * time.Second)
		stop()
		<-done
		if s.Failures() != 3 || reads != 3 {
			t.Errorf("%d failures of %d reports", s.Failures(), reads)
		}
		if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, missing) {
			t.Errorf("logged:\n%s", text)
		}
	})
}

// A report that the end cuts off has not failed.
func TestStopped(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	s := New(Options{Network: "udp", Addr: collector(t).LocalAddr().String(), Logger: slog.New(slog.DiscardHandler)})
	s.Run(ctx, func() ([]Gauge, error) {
		stop()
		return nil, ctx.Err()
	})
	if s.Failures() != 0 {
		t.Errorf("%d failures", s.Failures())
	}
}

func TestTag(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"default": "q:default", "a|b,c#d\ne f": "q:a_b_c_d_e_f", "grüße.1-2_3:4/5": "q:grüße.1-2_3:4/5",
		"\xff\xfe": "q:__", "": "q:",
		strings.Repeat("ü", 150):       "q:" + strings.Repeat("ü", 100),
		"x" + strings.Repeat("ü", 150): "q:x" + strings.Repeat("ü", 99),
	} {
		if got := Tag("q", value); got != want {
			t.Errorf("%q: %q, want %q", value, got, want)
		}
	}
}
