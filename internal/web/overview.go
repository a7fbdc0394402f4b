package web

import (
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"millrace/internal/api"
)

// period is a stretch of time that the overview can show.
type period struct {
	Name       string
	Title      string
	Resolution string // of the history
	Parts      string // the period of what is told about protocols and queues; empty: the latest sample
}

var periods = []period{
	{"live", "Live", "10s", ""},
	{"hour", "Last hour", "10s", "hour"},
	{"day", "Last day", "1m", "day"},
	{"month", "Last month", "1h", "month"},
}

// overviewPage is what the overview shows.
type overviewPage struct {
	Sample    api.Sample
	Queues    []workRow
	Protocols []workRow
	Server    api.ServerInfo
	Periods   []period
	Period    period
	History   []historyRow
	// States are the tiles: how many jobs there are in each state.
	States []string
}

const (
	busiestShown = 10
	// historyRows is how many lines the table beside the chart has.
	historyRows = 12
)

// historyRow sums up a part of the history.
type historyRow struct {
	From, To                                   time.Time
	Pushed, Fetched, Acked, Failed, Died, Gone uint64
	Ready                                      uint64
	Wait                                       *api.Wait // of the slowest of its slots
}

// workRow is what happened to a protocol or a queue: in a second, or with Sums all in all.
type workRow struct {
	Name, Sub   string
	Link        string
	Sums        bool
	Rates       api.Rates
	Wait        *api.Wait
	Ready       uint64
	Running     uint64
	Connections int64
}

func (h *handler) overview(v *visit) error {
	p := overviewPage{
		Sample: h.service.Live(), Server: h.service.Server(), Periods: periods, Period: periods[0],
		States: api.ShownStates(),
	}
	for _, other := range periods {
		if other.Name == v.r.URL.Query().Get("period") {
			p.Period = other
		}
	}
	if err := h.work(&p); err != nil {
		return err
	}
	if !v.partial() {
		past, err := h.service.History(p.Period.Resolution)
		if err != nil {
			return err
		}
		p.History = summary(&past)
	}
	return v.show(http.StatusOK, "overview", "Overview", p)
}

// work tells what happened to protocols and queues: just now, or in a period.
func (h *handler) work(p *overviewPage) error {
	if p.Period.Parts == "" {
		for _, q := range p.Sample.Busiest[:min(len(p.Sample.Busiest), busiestShown)] {
			p.Queues = append(p.Queues, workRow{
				Name: q.Name, Sub: q.Namespace, Link: queueLink(q.Namespace, q.Name), Rates: q.Rates, Wait: q.Wait,
				Ready: q.Ready, Running: q.Running,
			})
		}
		for _, s := range p.Sample.Protocols {
			p.Protocols = append(p.Protocols, workRow{Name: s.Protocol, Rates: s.Rates, Wait: s.Wait})
		}
		p.Protocols = withConnections(p.Protocols, h.service.Connections())
		return nil
	}
	past, err := h.service.Parts(p.Period.Parts)
	if err != nil {
		return err
	}
	row := func(part *api.Part) workRow {
		return workRow{
			Sums: true, Wait: part.Wait,
			Rates: api.Rates{
				Pushed: float64(part.Pushed), Fetched: float64(part.Fetched), Acked: float64(part.Acked),
				Failed: float64(part.Failed),
			},
		}
	}
	for i := range past.Queues[:min(len(past.Queues), busiestShown)] {
		q := &past.Queues[i]
		r := row(q)
		r.Name, r.Sub, r.Link = q.Name, q.Namespace, queueLink(q.Namespace, q.Name)
		p.Queues = append(p.Queues, r)
	}
	for i := range past.Protocols {
		r := row(&past.Protocols[i])
		r.Name = past.Protocols[i].Protocol
		p.Protocols = append(p.Protocols, r)
	}
	return nil
}

// withConnections adds the connections of protocols, also of those through which nothing has happened.
func withConnections(rows []workRow, all []api.Connections) []workRow {
	for _, c := range all {
		i := slices.IndexFunc(rows, func(r workRow) bool { return r.Name == c.Protocol })
		if i < 0 {
			i = len(rows)
			rows = append(rows, workRow{Name: c.Protocol})
		}
		rows[i].Connections += c.Open
	}
	return rows
}

// Figure shows a rate, or a sum.
func (r workRow) Figure(n float64) string {
	if r.Sums {
		return number(uint64(n))
	}
	return rate(n)
}

// summary puts the history into a few lines, the newest first.
func summary(past *api.History) []historyRow {
	var rows []historyRow
	points := past.Points
	each := max(1, (len(points)+historyRows-1)/historyRows)
	for chunk := range slices.Chunk(points, each) {
		last := &chunk[len(chunk)-1]
		row := historyRow{
			From: chunk[0].At, To: last.At.Add(time.Duration(past.Seconds * float64(time.Second))),
			Ready: last.Counts["ready"],
		}
		for i := range chunk {
			p := &chunk[i]
			row.Pushed += p.Pushed
			row.Fetched += p.Fetched
			row.Acked += p.Acked
			row.Failed += p.Failed
			row.Died += p.Died
			row.Gone += p.Expired
			if p.Wait != nil && (row.Wait == nil || p.Wait.P95 > row.Wait.P95) {
				row.Wait = p.Wait
			}
		}
		rows = append(rows, row)
	}
	slices.Reverse(rows)
	return rows
}

// series is the history as a chart wants it: times in seconds, and what happened in a second.
type series struct {
	Seconds float64   `json:"seconds"`
	At      []int64   `json:"at"`
	Pushed  []float64 `json:"pushed"`
	Acked   []float64 `json:"acked"`
	Failed  []float64 `json:"failed"`
	Ready   []uint64  `json:"ready"`
	// How long jobs waited, in seconds; null where none was fetched.
	P50 []*float64 `json:"p50"`
	P95 []*float64 `json:"p95"`
	// How many were fetched, and how long they ran: only of a type.
	Fetched []float64  `json:"fetched"`
	Run50   []*float64 `json:"run50"`
	Run95   []*float64 `json:"run95"`
}

func (h *handler) history(v *visit) error {
	q := v.r.URL.Query()
	past, err := h.service.History(cmp.Or(q.Get("resolution"), periods[0].Resolution))
	if queue := q.Get("queue"); queue != "" {
		past, err = h.service.QueueHistory(q.Get("namespace"), queue, cmp.Or(q.Get("period"), "hour"))
	} else if q.Has("type") {
		past, err = h.service.TypeHistory(q.Get("type"), cmp.Or(q.Get("period"), "hour"))
	}
	if err != nil {
		return err
	}
	s := series{
		Seconds: past.Seconds, At: []int64{}, Pushed: []float64{}, Acked: []float64{}, Failed: []float64{},
		Ready: []uint64{}, P50: []*float64{}, P95: []*float64{},
		Fetched: []float64{}, Run50: []*float64{}, Run95: []*float64{},
	}
	for i := range past.Points {
		p := &past.Points[i]
		s.At = append(s.At, p.At.Unix())
		s.Pushed = append(s.Pushed, float64(p.Pushed)/past.Seconds)
		s.Acked = append(s.Acked, float64(p.Acked)/past.Seconds)
		s.Failed = append(s.Failed, float64(p.Failed)/past.Seconds)
		s.Ready = append(s.Ready, p.Counts["ready"])
		s.Fetched = append(s.Fetched, float64(p.Fetched)/past.Seconds)
		p50, p95 := quantiles(p.Wait)
		s.P50, s.P95 = append(s.P50, p50), append(s.P95, p95)
		p50, p95 = quantiles(p.Run)
		s.Run50, s.Run95 = append(s.Run50, p50), append(s.Run95, p95)
	}
	text, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("write the history: %w", err)
	}
	v.w.Header().Set("Content-Type", "application/json")
	write(v.w, v.r, http.StatusOK, text, zip(text, gzip.BestSpeed))
	return nil
}

// quantiles are those that a chart shows; nil where nothing was counted.
func quantiles(w *api.Wait) (p50, p95 *float64) {
	if w == nil {
		return nil, nil
	}
	return &w.P50, &w.P95
}

const (
	// liveTimeout bounds a write to a browser that does not read.
	liveTimeout = 10 * time.Second
	// liveRetry is when a browser should come back, in milliseconds.
	liveRetry = "retry: 2000\n\n"
)

// live sends each sample as a server-sent event, until the browser goes or the server stops.
func (h *handler) live(v *visit) error {
	control := http.NewResponseController(v.w)
	// The times of the listener are for short answers. A transport that has none needs no change.
	_ = control.SetReadDeadline(time.Time{})
	begun := false
	send := func(text string) error {
		_ = control.SetWriteDeadline(time.Now().Add(liveTimeout))
		if _, err := v.w.Write([]byte(text)); err != nil {
			return err
		}
		return control.Flush()
	}
	err := h.service.Watch(v.r.Context(), func(sample []byte) error {
		if !begun {
			begun = true
			v.w.Header().Set("Content-Type", "text/event-stream")
			v.w.Header().Set("X-Accel-Buffering", "no")
			if err := send(liveRetry); err != nil {
				return err
			}
		}
		return send("event: sample\ndata: " + string(sample) + "\n\n")
	})
	if begun {
		return nil // the stream has ended, and whoever read it is gone
	}
	return err
}
