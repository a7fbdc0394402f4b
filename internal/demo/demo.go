package demo

import (
	"context"
	"fmt"
	"io"
	"time"
)

// Options say what to stage, and where.
type Options struct {
	// Addrs are the addresses of the server by protocol: faktory, beanstalkd, masenko, lmstfy and web.
	Addrs map[string]string
	// Clock is the one that the server goes by, and Step has it notice that the clock was set forward.
	Clock *Clock
	Step  func(context.Context) error
	// Out is told how far it is.
	Out io.Writer
}

// Run lives through the time that the clock lags behind, as fast as it can, and then goes on second by second until ctx
// ends.
func Run(ctx context.Context, o Options) error {
	err := run(ctx, o)
	if ctx.Err() != nil {
		return nil //nolint:nilerr // connections that break then are cut off by the server, which stops
	}
	return err
}

func run(ctx context.Context, o Options) error {
	past := o.Clock.catchUp(0)
	s, err := open(ctx, o.Addrs, o.Clock, past)
	defer s.close()
	if err != nil {
		return fmt.Errorf("set up the shop: %w", err)
	}
	if past > 0 {
		say(o.Out, "staging    the last %s of a shop; pages are at http://%s/\n", past.Round(time.Second),
			o.Addrs["web"])
	}
	for left := past; left > 0; {
		if err := s.live(ctx); err != nil {
			return err
		}
		left = o.Clock.catchUp(time.Second)
		if err := o.Step(ctx); err != nil {
			return err
		}
	}
	say(o.Out, "staged     the shop goes on until you press Ctrl-C\n")
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := s.live(ctx); err != nil {
			return err
		}
	}
}

func say(w io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintf(w, format, args...) // nobody to tell
}
