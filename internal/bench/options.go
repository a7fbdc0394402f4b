package bench

import (
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"time"

	"millrace/internal/wire"
)

// Options say what a run does.
type Options struct {
	Protocol *Protocol
	Addr     string
	TLS      *tls.Config // see DialOptions
	Secret   string      // see DialOptions
	Queue    string

	// Producers push and Workers fetch and ack, each on a connection of its own. Without producers the
	// queue is filled first, which is not measured; without workers it is emptied afterwards.
	Producers int
	Workers   int
	// Batch is how many jobs a producer pushes with one write.
	Batch int
	// Sizes are the sizes of bodies, which take turns.
	Sizes []int

	// Rate is how many jobs are pushed per second, at times that do not depend on how the server does;
	// zero is as fast as the server answers.
	Rate float64
	// Duration and Count end the run: no more is pushed after that time, or not more than that many jobs.
	// Zero is no limit; one of them is needed.
	Duration time.Duration
	Count    int
	// InFlight bounds, if there are workers and no rate, how many pushes a producer may be ahead of them;
	// zero is no bound, and the queue may grow.
	InFlight int

	// Patience is how long it takes without any progress until missing jobs are given up.
	Patience time.Duration
	// Linger lets workers go on when every job has come until they find nothing more, which takes a
	// fetch's wait: then duplicates at the very end are counted, too.
	Linger bool
	// Keep leaves jobs that nobody has fetched in the queue, unchecked.
	Keep bool
	// Unchecked is for a server that does nothing: what it delivers is not looked at.
	Unchecked bool
	// Progress is told from time to time how far the run is.
	Progress func(Progress)
}

// Progress is how far a run is.
type Progress struct {
	Phase   Phase
	Elapsed time.Duration // of this phase
	Pushed  uint64        // in the whole run
	Fetched uint64
}

// Phase is a part of a run.
type Phase string

// The phases of a run. Only one of them is measured.
const (
	PhaseFill  Phase = "fill"
	PhaseRun   Phase = "run"
	PhaseDrain Phase = "drain"
)

// What is not measured should be over soon: how many jobs are pushed at once, and how many connections fetch at
// least.
const (
	fillBatch    = 64
	drainWorkers = 32
)

// Check returns what is wrong with the options.
func (o *Options) Check() error {
	switch {
	case o.Producers < 0 || o.Workers < 0 || o.Producers+o.Workers == 0:
		return errors.New("there must be producers or workers")
	case o.Producers == 0 && o.Count <= 0:
		return errors.New("workers without producers need a number of jobs that the queue is filled with first")
	case o.Producers == 0 && o.Rate > 0:
		return errors.New("a rate is one of pushes, and there are no producers")
	case o.Batch < 1:
		return errors.New("a producer must push at least one job at once")
	case o.Duration <= 0 && o.Count <= 0:
		return errors.New("the run needs a duration or a number of jobs")
	case o.Duration < 0 || o.Count < 0 || o.Rate < 0 || o.InFlight < 0:
		return errors.New("duration, number of jobs, rate and jobs in flight cannot be negative")
	case len(o.Sizes) == 0 || slices.Min(o.Sizes) < SizeMin:
		return fmt.Errorf("a body that can be numbered has at least %d bytes", SizeMin)
	case o.Unchecked && o.Workers > 0 && (o.InFlight == 0 || o.Producers == 0):
		return errors.New("what does nothing delivers without end: jobs in flight must be bounded")
	}
	return nil
}

func (o *Options) dial() (wire.Client, error) {
	c, err := o.Protocol.Dial(DialOptions{
		Addr: o.Addr, TLS: o.TLS, Queue: o.Queue, Secret: o.Secret, BodyMax: slices.Max(o.Sizes),
		Batch: max(o.Batch, fillBatch),
	})
	if err != nil {
		return nil, fmt.Errorf("connect to %s at %s: %w", o.Protocol.Name, o.Addr, err)
	}
	return c, nil
}

// Nothing returns what a server that does nothing must know to be measured with these options.
func (o *Options) Nothing() Nothing {
	const besides = 1 << 10 // the bytes of a push that are not its body
	return Nothing{Body: Blank(o.Sizes[0]), RequestMax: max(o.Batch, 1) * (slices.Max(o.Sizes) + besides)}
}
