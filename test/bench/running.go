package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"millrace/test/harness"
)

// running is a server with a client, which does everything in order but drain.
type running struct {
	*harness.Server
	client *harness.Client
	out    report
	dir    string
	body   int // the size of a job's payload in bytes
}

// start starts the server and connects.
func (s *scale) start(ctx context.Context, dir string) (*running, error) {
	o := harness.Options{
		Bin: s.bin, Env: s.ports, Args: serveArgs(dir, "--masenko-heartbeat", "1h"),
		Also: []string{"web"}, Patience: 10 * time.Minute,
	}
	server, err := harness.Start(ctx, o)
	if err != nil {
		return nil, err
	}
	c, err := harness.Dial(server.Addr)
	if err != nil {
		server.Kill()
		return nil, err
	}
	return &running{Server: server, client: c, out: s.out, dir: dir, body: s.body}, nil
}

// stop ends the server in order.
func (r *running) stop() error {
	_ = r.client.Close() // nothing is in flight
	return r.Stop(time.Minute)
}

// memory prints the memory of the server and lets its peak start again.
func (r *running) memory(phase string) error {
	m, err := harness.ReadMemory(r.Pid())
	if err != nil {
		return err
	}
	size, err := harness.DirSize(r.dir)
	if err != nil {
		return err
	}
	r.out.printf("  %-38s %5d MiB resident, %5d MiB at most since the last line, %6d MiB on disk", phase,
		m.Resident>>20, m.Peak>>20, size>>20)
	return harness.ResetPeak(r.Pid())
}

const (
	fillBatch    = 500 // jobs in one transaction
	fillInFlight = 4   // transactions sent ahead of their answers
)

// noise is text that does not compress, of which payloads are cut: a disk filled
// with blanks would prove little.
var noise = func() string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-"
	rnd := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same in every run
	b := make([]byte, 1<<20)
	for i := range b {
		b[i] = letters[rnd.IntN(len(letters))]
	}
	return string(b)
}()

// random returns size bytes of the noise, different ones for different i.
func random(i, size int) string {
	at := i * 7919 % (len(noise) - size)
	return noise[at : at+size]
}

// numberSize is how many digits a payload begins with.
const numberSize = 12

// numbered is the payload of the i-th job.
func (r *running) numbered(i int) string {
	return fmt.Sprintf("%0*d%s", numberSize, i, random(i, r.body-numberSize))
}

// progress prints how far a long phase is, every ten seconds.
type progress struct {
	r     *running
	verb  string
	total int
	began time.Time
	last  time.Time // of the last line
	done  int       // until then
}

func (r *running) progress(verb string, total int) *progress {
	now := time.Now()
	return &progress{r: r, verb: verb, total: total, began: now, last: now}
}

func (p *progress) at(done int) error {
	now := time.Now()
	passed := now.Sub(p.last)
	if passed < 10*time.Second {
		return nil
	}
	rate := float64(done-p.done) / passed.Seconds()
	p.last, p.done = now, done
	m, err := harness.ReadMemory(p.r.Pid())
	if err != nil {
		return err
	}
	p.r.out.printf("    %s %d of %d, %.0f/s, %d MiB resident", p.verb, done, p.total, rate, m.Resident>>20)
	return nil
}

// transactions sends n requests in transactions, some ahead of their answers.
// request queues the i-th.
func (r *running) transactions(verb string, n int, request func(i int)) (rate float64, err error) {
	began := time.Now()
	p := r.progress(verb, n)
	ahead := 0
	for sent := 0; sent < n || ahead > 0; {
		if sent < n && ahead < fillInFlight {
			r.client.Queue("ATOMIC")
			for end := min(n, sent+fillBatch); sent < end; sent++ {
				request(sent)
			}
			r.client.Queue("DONE")
			if err := r.client.Send(time.Minute); err != nil {
				return 0, err
			}
			ahead++
			continue
		}
		if _, err := r.client.Reply(); err != nil {
			return 0, fmt.Errorf("%s, about %d: %w", verb, sent, err)
		}
		ahead--
		if err := p.at(sent); err != nil {
			return 0, err
		}
	}
	return float64(n) / time.Since(began).Seconds(), nil
}

// fill pushes n numbered jobs in order.
func (r *running) fill(queue string, n int) (rate float64, err error) {
	return r.transactions("fill", n, func(i int) { r.client.QueuePush(queue, r.numbered(i)) })
}
