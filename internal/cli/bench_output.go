package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"millrace/internal/bench"
)

// benchReport is what a benchmark found, as JSON shows it.
type benchReport struct {
	Machine bench.Machine `json:"machine"`
	// Server is what the server tells about itself, if it does.
	Server *bench.Server `json:"server,omitempty"`
	*bench.Result
	Ceiling *bench.Result `json:"ceiling,omitempty"`
}

// print prints it for people.
func (r *benchReport) print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "machine  %s\n", r.Machine)
	server := "tells nothing about itself"
	if r.Server != nil {
		server = fmt.Sprintf("millrace %s (%s), durability %s", r.Server.Version, r.Server.Go, r.Server.Durability)
	}
	at := r.Addr
	if r.TLS {
		at += " with TLS"
	}
	fmt.Fprintf(&b, "server   %s at %s, %s\n", r.Protocol, at, server)
	fmt.Fprintf(&b, "load     %s, %s, queue %s\n\n", plural(r.Producers, "producer"), plural(r.Workers, "worker"),
		r.Queue)
	header := []string{"OPERATION", "JOBS", "JOBS/S"}
	if r.Ceiling != nil {
		header = append(header, "OF CEILING")
	}
	rates := newTable(&b, header...)
	r.rate(rates, "pushed", r.Pushed, r.PushRate)
	r.rate(rates, "fetched and acknowledged", r.Fetched, r.FetchRate)
	if err := rates.flush(); err != nil {
		return err
	}
	b.WriteString("\n")
	times := newTable(&b, "OPERATION", "COUNT", "P50", "P95", "P99", "P99.9", "MAX")
	for _, row := range []struct {
		name string
		l    bench.Latency
	}{{"push", r.Push}, {"fetch", r.Fetch}, {"acknowledge", r.Ack}, {"push to fetch", r.PushToFetch}} {
		if row.l.Count > 0 {
			times.row(row.name, fmt.Sprint(row.l.Count), row.l.P50.String(), row.l.P95.String(), row.l.P99.String(),
				row.l.P999.String(), row.l.Max.String())
		}
	}
	if err := times.flush(); err != nil {
		return err
	}
	if r.Wanted > 0 && r.PushRate < 0.95*r.Wanted {
		fmt.Fprintf(&b, "\nThe server did not keep up with %.0f jobs/s: latencies grow with the length of the run.\n",
			r.Wanted)
	}
	b.WriteString("\n" + r.verdict() + "\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *benchReport) rate(t *table, name string, jobs uint64, rate float64) {
	if jobs == 0 {
		return
	}
	cells := []string{name, fmt.Sprint(jobs), fmt.Sprintf("%.0f", rate)}
	if r.Ceiling != nil && rate == r.Rate() {
		cells = append(cells, fmt.Sprintf("%.2f of %.0f", rate/r.Ceiling.Rate(), r.Ceiling.Rate()))
	}
	t.row(cells...)
}

// verdict tells what became of the jobs.
func (r *benchReport) verdict() string {
	if !r.Checked {
		return "Jobs were left in the queue and not checked."
	}
	return fmt.Sprintf("%d lost, %d duplicated.", r.Lost, r.Duplicated)
}

// benchLine shows how far a benchmark is: one line that changes on a terminal, a line now and then
// elsewhere. What cannot be written is let go.
type benchLine struct {
	w        io.Writer
	terminal bool
	duration time.Duration
	count    int
	last     bench.Progress // that was shown
}

func newBenchLine(w io.Writer, o bench.Options) *benchLine {
	return &benchLine{w: w, terminal: isTerminal(w), duration: o.Duration, count: o.Count}
}

// show is told of progress by one goroutine.
func (l *benchLine) show(p bench.Progress) {
	if p.Phase != l.last.Phase || p.Elapsed < l.last.Elapsed { // the first line comes after a while
		l.last = p
		return
	}
	every := lineEvery
	if l.terminal {
		every = 5 * drawEvery
	}
	took := p.Elapsed - l.last.Elapsed
	if took < every {
		return
	}
	text := fmt.Sprintf("%s: %s%s, %d pushed (%.0f/s), %d fetched (%.0f/s)", p.Phase, p.Elapsed.Round(time.Second),
		l.goal(p.Phase),
		p.Pushed, float64(p.Pushed-l.last.Pushed)/took.Seconds(), p.Fetched,
		float64(p.Fetched-l.last.Fetched)/took.Seconds())
	l.last = p
	if l.terminal {
		_, _ = fmt.Fprintf(l.w, "\r\x1b[K%s", text)
		return
	}
	_, _ = fmt.Fprintln(l.w, text)
}

// goal tells how long a phase will last.
func (l *benchLine) goal(p bench.Phase) string {
	switch {
	case p == bench.PhaseRun && l.duration > 0:
		return fmt.Sprintf(" of %s", l.duration)
	case l.count > 0:
		return fmt.Sprintf(", %d jobs to go through", l.count)
	}
	return ""
}

// clear removes the line from a terminal, before something else is printed.
func (l *benchLine) clear() {
	if l.terminal {
		_, _ = io.WriteString(l.w, "\r\x1b[K")
	}
}
