package web

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"millrace/internal/admin"
)

// period is a stretch of time that the overview can show.
type period struct {
	Name       string
	Title      string
	Resolution string // of the history
}

var periods = []period{
	{"live", "Live", "10s"},
	{"hour", "Last hour", "10s"},
	{"day", "Last day", "1m"},
	{"month", "Last month", "1h"},
}

// overviewPage is what the overview shows.
type overviewPage struct {
	Sample      admin.Sample
	Busiest     []admin.QueueSample
	Connections []admin.Connections
	Ready       bool
	Checks      []admin.Check
	Server      admin.ServerInfo
	Periods     []period
	Period      period
	History     []historyRow
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
}

func (h *handler) overview(v *visit) error {
	p := overviewPage{
		Sample: h.service.Live(), Connections: h.service.Connections(), Server: h.service.Server(), Periods: periods, Period: periods[0], States: states(),
	}
	for _, other := range periods {
		if other.Name == v.r.URL.Query().Get("period") {
			p.Period = other
		}
	}
	p.Busiest = p.Sample.Busiest[:min(len(p.Sample.Busiest), busiestShown)]
	p.Ready, p.Checks = h.service.Health()
	if !v.partial() {
		past, err := h.service.History(p.Period.Resolution)
		if err != nil {
			return err
		}
		p.History = summary(&past)
	}
	return v.show(http.StatusOK, "overview", "Overview", p)
}

// summary puts the history into a few lines, the newest first.
func summary(past *admin.History) []historyRow {
	var rows []historyRow
	points := past.Points
	each := max(1, (len(points)+historyRows-1)/historyRows)
	for chunk := range slices.Chunk(points, each) {
		last := &chunk[len(chunk)-1]
		row := historyRow{From: chunk[0].At, To: last.At.Add(time.Duration(past.Seconds * float64(time.Second))), Ready: last.Counts["ready"]}
		for i := range chunk {
			p := &chunk[i]
			row.Pushed += p.Pushed
			row.Fetched += p.Fetched
			row.Acked += p.Acked
			row.Failed += p.Failed
			row.Died += p.Died
			row.Gone += p.Expired
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
}

func (h *handler) history(v *visit) error {
	name := v.r.URL.Query().Get("resolution")
	past, err := h.service.History(name)
	if err != nil {
		return err
	}
	s := series{Seconds: past.Seconds, At: []int64{}, Pushed: []float64{}, Acked: []float64{}, Failed: []float64{}, Ready: []uint64{}}
	for i := range past.Points {
		p := &past.Points[i]
		s.At = append(s.At, p.At.Unix())
		s.Pushed = append(s.Pushed, float64(p.Pushed)/past.Seconds)
		s.Acked = append(s.Acked, float64(p.Acked)/past.Seconds)
		s.Failed = append(s.Failed, float64(p.Failed)/past.Seconds)
		s.Ready = append(s.Ready, p.Counts["ready"])
	}
	text, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("write the history: %w", err)
	}
	v.w.Header().Set("Content-Type", "application/json")
	write(v.w, v.r, http.StatusOK, text, zip(text, gzip.BestSpeed))
	return nil
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
