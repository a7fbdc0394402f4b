package cli

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"millrace/internal/api"
	"millrace/internal/apiclient"
	"millrace/internal/timing"
)

func newReplayCommand(p Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "replay FILE",
		Short: "Push the jobs of an export to a test server, at a given rate",
		Long: `Push the jobs of an export as new jobs, one request each, as a producer would: to see how workers,
or a new release, take the load of another server. A job keeps its queue, type, key, group, body,
priority, retries and lease. A job that was scheduled keeps its delay. States, attempts and failures
are not replayed: "millrace import" does that.

--rate pushes at a fixed rate, in the order of the export. --speed keeps the times between the
pushes: --speed 1 as they were, --speed 60 an hour in a minute. For that FILE is read twice. With
--rate, FILE may be - for standard input.

The command refuses a server that has jobs, because it may be the wrong one. --force pushes to it
all the same.

At the end it reports how many jobs were pushed and refused, why, and how long the requests took.
The exit status is also 1 if some were refused.`,
		Example: `  millrace replay jobs.jsonl --rate 500/s --api http://test:7420
  millrace replay jobs.jsonl --speed 60 --api http://test:7420
  millrace export --queue mails | millrace replay - --rate 100/s --api http://test:7420`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("name the file of an export, or - for standard input")
			}
			return nil
		},
	}
	r := &replayer{}
	rate := cmd.Flags().String("rate", "", "push this number of jobs in a time: 500/s, 30/m")
	cmd.Flags().Float64Var(&r.speed, "speed", 0, "keep the times between the jobs; 2 is twice as fast")
	cmd.Flags().IntVar(&r.connections, "connections", 16, "requests at a time, at most")
	cmd.Flags().BoolVar(&r.force, "force", false, "push to a server that has jobs")
	cmd.Flags().BoolVar(&r.check.ignore, "ignore-checksums", false, "replay what was changed since it was exported")
	f := addAPI(cmd, p)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := r.pace(*rate, args[0]); err != nil {
			return err
		}
		in := io.NopCloser(cmd.InOrStdin())
		if args[0] != "-" {
			file, err := os.Open(args[0])
			if err != nil {
				return fail(err)
			}
			r.file, in = file, file
		}
		defer in.Close() //nolint:errcheck // only read from
		err := f.transfer(cmd, func(ctx context.Context, c *apiclient.Client, bar *progress) error {
			r.client, r.bar = c, bar
			return r.run(ctx, in)
		})
		if !r.began.IsZero() {
			if perr := r.print(cmd.OutOrStdout(), f.asJSON); perr != nil {
				return fail(perr)
			}
		}
		if err == nil && r.out.Refused > 0 {
			err = fail(fmt.Errorf("%s refused", plural(r.out.Refused, "job")))
		}
		return err
	}
	return cmd
}

// replayer pushes the jobs of an export.
type replayer struct {
	client      *apiclient.Client
	bar         *progress
	file        *os.File // if it is one
	check       verifier
	every       time.Duration // between two jobs
	speed       float64
	connections int
	force       bool

	total uint64
	began time.Time
	tasks chan *api.Record
	mu    sync.Mutex
	out   replayed
	took  timing.Histogram
	fatal error
}

// replayed is what became of the jobs.
type replayed struct {
	Pushed   uint64            `json:"pushed"`
	Refused  uint64            `json:"refused"`
	Reasons  map[string]uint64 `json:"reasons,omitempty"` // of refusals
	Seconds  float64           `json:"seconds"`
	Rate     float64           `json:"rate"` // pushed in a second
	P50      float64           `json:"p50_ms"`
	P95      float64           `json:"p95_ms"`
	P99      float64           `json:"p99_ms"`
	Max      float64           `json:"max_ms"`
	BehindBy float64           `json:"behind_seconds"` // how late the last job was, by the rate that was asked for
}

// reasonsMax is how many reasons are told apart.
const reasonsMax = 20

// pace reads how fast to push.
func (r *replayer) pace(rate, file string) error {
	n, per, err := api.ParseRate(rate)
	switch {
	case err != nil:
		return ofFlag("--rate", err)
	case (n == 0) == (r.speed == 0):
		return errors.New("say how fast: --rate 500/s, or --speed 1 to keep the times between the jobs")
	case r.speed < 0:
		return errors.New("--speed: it is more than 0")
	case r.speed > 0 && file == "-":
		return errors.New("--speed reads the export twice: name a file, or use --rate")
	case r.connections < 1 || r.connections > 1000:
		return errors.New("--connections: choose 1 to 1000")
	case n > 0:
		r.every = per / time.Duration(n)
	}
	return nil
}

func (r *replayer) run(ctx context.Context, in io.Reader) error {
	page, err := r.client.Jobs(ctx, api.Filter{}, api.PageOf{Limit: 1})
	if err != nil {
		return err
	}
	if n := page.Progress.Total; n > 0 && !r.force {
		return fail(fmt.Errorf("%s has %s: a replay is for a test server. Add --force to push to it all the same",
			r.client.URL(), plural(n, "job")))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.tasks = make(chan *api.Record)
	r.out.Reasons = map[string]uint64{}
	var workers sync.WaitGroup
	for range r.connections {
		workers.Go(func() {
			for task := range r.tasks {
				if err := r.push(ctx, task); err != nil {
					r.mu.Lock()
					r.fatal = cmp.Or(r.fatal, err)
					r.mu.Unlock()
					cancel()
				}
			}
		})
	}
	if r.speed > 0 {
		err = r.inTime(ctx, in)
	} else {
		err = r.inOrder(ctx, in)
	}
	close(r.tasks)
	workers.Wait()
	if !r.began.IsZero() {
		r.out.Seconds = time.Since(r.began).Seconds()
	}
	return cmp.Or(r.fatal, err)
}

// each tells the jobs of an export that are whole, one after the other.
func (r *replayer) each(in io.Reader, use func(text []byte) error) error {
	take := func(lines []exportLine, err error) error {
		for i := range lines {
			if err == nil && lines[i].isJob() {
				err = use(lines[i].text)
			}
		}
		return err
	}
	for line, err := range exportLines(in) {
		if err != nil {
			return fail(err)
		}
		if err := take(r.check.add(line)); err != nil {
			return err
		}
	}
	return take(r.check.rest())
}

// inOrder pushes jobs as they come, at a rate.
func (r *replayer) inOrder(ctx context.Context, in io.Reader) error {
	r.began = time.Now()
	n := 0
	return r.each(in, func(text []byte) error {
		task, err := readTask(text)
		if err != nil {
			return err
		}
		due := r.began.Add(time.Duration(n) * r.every)
		n++
		return r.give(ctx, task, due)
	})
}

// inTime pushes jobs in the order in which they were pushed, with the times between them.
func (r *replayer) inTime(ctx context.Context, in io.Reader) error {
	type spot struct{ at, offset int64 } // a few bytes for each job
	var spots []spot
	offset := int64(0)
	for line, err := range exportLines(in) {
		if err != nil {
			return fail(err)
		}
		at := offset
		offset += int64(len(line.text))
		if _, err := r.check.add(line); err != nil {
			return err
		}
		if !line.isJob() {
			continue
		}
		task, err := readTask(line.text)
		if err != nil {
			return err
		}
		made := int64(0)
		if task.Created != nil {
			made = task.Created.UnixMicro()
		}
		spots = append(spots, spot{made, at})
	}
	if _, err := r.check.rest(); err != nil {
		return err
	}
	slices.SortStableFunc(spots, func(a, b spot) int { return cmp.Compare(a.at, b.at) })
	r.total, r.began = uint64(len(spots)), time.Now()
	for _, s := range spots {
		text, err := bufio.NewReader(io.NewSectionReader(r.file, s.offset, offset-s.offset)).ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return fail(err)
		}
		task, err := readTask(text)
		if err != nil {
			return err
		}
		after := time.Duration(float64(s.at-spots[0].at) / r.speed * float64(time.Microsecond))
		if err := r.give(ctx, task, r.began.Add(after)); err != nil {
			return err
		}
	}
	return nil
}

func readTask(text []byte) (*api.Record, error) {
	task := new(api.Record)
	if err := json.Unmarshal(text, task); err != nil || task.Queue == "" {
		return nil, fail(fmt.Errorf("%q is no job of an export", strings.TrimSpace(string(text[:min(len(text), 60)]))))
	}
	return task, nil
}

// give hands a job to whoever pushes, when it is due.
func (r *replayer) give(ctx context.Context, task *api.Record, due time.Time) error {
	if wait := time.Until(due); wait > 0 && !sleep(ctx, wait) {
		return ctx.Err()
	}
	select {
	case r.tasks <- task:
		r.out.BehindBy = max(time.Since(due).Seconds(), 0)
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// push pushes one job. What is refused is counted; without a server it ends.
func (r *replayer) push(ctx context.Context, task *api.Record) error {
	began := time.Now()
	_, err := r.client.Push(ctx, task.Namespace, task.Queue, []*api.NewJob{newJobOf(task)})
	took := time.Since(began)
	r.mu.Lock()
	defer r.mu.Unlock()
	refused, ok := errors.AsType[*api.Problem](err)
	switch {
	case err == nil:
		r.out.Pushed++
		r.took.Observe(took)
		r.out.Max = max(r.out.Max, milliseconds(took))
	case ok:
		r.out.Refused++
		reason := orElse(refused.Detail, refused.Title)
		if _, known := r.out.Reasons[reason]; !known && len(r.out.Reasons) >= reasonsMax {
			reason = "other reasons"
		}
		r.out.Reasons[reason]++
	default:
		return err
	}
	r.bar.update("replaying", r.out.Pushed+r.out.Refused, r.total)
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// newJobOf makes the job that a producer would push.
func newJobOf(t *api.Record) *api.NewJob {
	n := &api.NewJob{
		Type: t.Type, Key: t.Key, Group: t.Group, Payload: t.Payload, Priority: t.Policy.Priority,
		Lease: t.Policy.LeaseSeconds, Keep: t.Policy.Keep,
	}
	since := func(at *time.Time) float64 {
		if at == nil || t.Created == nil {
			return 0
		}
		return max(at.Sub(*t.Created).Seconds(), 0)
	}
	if n.TTL = since(t.ExpireAt); t.Fails == 0 { // else it is when the job is tried again
		n.Delay = since(t.RunAt)
	}
	if t.Policy.MaxFails > 0 {
		retry := int(t.Policy.MaxFails) - 1
		n.Retry = &retry
	}
	return n
}

func (r *replayer) print(w io.Writer, asJSON bool) error {
	o := &r.out
	if o.Seconds > 0 {
		o.Rate = float64(o.Pushed) / o.Seconds
	}
	o.P50, o.P95, o.P99 = milliseconds(r.took.Quantile(0.5)), milliseconds(r.took.Quantile(0.95)),
		milliseconds(r.took.Quantile(0.99))
	if asJSON {
		return printJSON(w, o)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s pushed in %.1f s (%.0f/s), %d refused\n", plural(o.Pushed, "job"), o.Seconds, o.Rate, o.Refused)
	for _, reason := range slices.Sorted(maps.Keys(o.Reasons)) {
		fmt.Fprintf(&b, "  %d: %s\n", o.Reasons[reason], printable(reason))
	}
	if o.Pushed > 0 {
		fmt.Fprintf(&b, "requests took %.1f ms at the median, %.1f ms at p95, %.1f ms at p99, %.1f ms at most\n", o.P50,
			o.P95, o.P99, o.Max)
	}
	if o.BehindBy > 1 {
		fmt.Fprintf(&b, "The server, or this machine, was slower than asked: the last job was %.0f s late. More "+
			"--connections may help.\n", o.BehindBy)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
