package web

import (
	"net/http"
	"slices"

	"millrace/internal/api"
)

// typesPage is what the page about types of jobs shows.
type typesPage struct {
	api.Types
	Periods []period // the first is since the start
	Shown   period
}

// typePeriods are the stretches of time that the figures of types can be of.
var typePeriods = append([]period{{Name: "start", Title: "Since the start"}}, periods[1:]...)

func (h *handler) types(v *visit) error {
	p := typesPage{Periods: typePeriods, Shown: periodOf(v, typePeriods)}
	var err error
	if p.Types, err = h.service.Types(p.Shown.Parts); err != nil {
		return err
	}
	return v.show(http.StatusOK, "types", "Types", &p)
}

// periodOf returns which of some periods is asked for; the first if none is.
func periodOf(v *visit, all []period) period {
	asked := v.r.URL.Query().Get("period")
	return all[max(0, slices.IndexFunc(all, func(p period) bool { return p.Name == asked }))]
}

// Rate is how many jobs of a type were fetched in a second.
func (p *typesPage) Rate(f api.TypeFigures) string {
	if p.Seconds <= 0 {
		return rate(0)
	}
	return rate(float64(f.Fetched) / p.Seconds)
}

// FailedPercent is how many of the jobs that workers ended have failed.
func (p *typesPage) FailedPercent(f api.TypeFigures) float64 {
	if ended := f.Acked + f.Failed; ended > 0 {
		return 100 * float64(f.Failed) / float64(ended)
	}
	return 0
}

// typePage is what the page of one type shows.
type typePage struct {
	Type    string
	Periods []period
	Period  period
	Rows    []typeRow
	Failed  *jobsPage // its dead and retrying jobs
	Self    string
}

// typeRow sums up a part of the history of a type.
type typeRow struct {
	historyRow
	Run *api.Wait // of the slowest of its slots
}

// jobType shows the jobs of a type over time.
func (h *handler) jobType(v *visit) error {
	p := typePage{Type: v.r.URL.Query().Get("type"), Periods: periods[1:], Period: periodOf(v, periods[1:])}
	past, err := h.service.TypeHistory(p.Type, p.Period.Parts)
	if err != nil {
		return err
	}
	p.Rows = typeRows(&past)
	p.Self = link("/type", "type", p.Type)
	f := api.Filter{Type: p.Type, States: []string{"dead", "retrying"}}
	if p.Failed, err = h.jobsOf(listFailed, f, p.Self); err != nil {
		return err
	}
	return v.show(http.StatusOK, "type", "Type "+p.Type, p)
}

// typeRows puts the history of a type into a few lines, the newest first.
func typeRows(past *api.History) []typeRow {
	rows := make([]typeRow, 0, historyRows)
	for _, r := range summary(past) {
		row := typeRow{historyRow: r}
		for i := range past.Points {
			p := &past.Points[i]
			if p.Run != nil && !p.At.Before(r.From) && p.At.Before(r.To) &&
				(row.Run == nil || p.Run.P95 > row.Run.P95) {
				row.Run = p.Run
			}
		}
		rows = append(rows, row)
	}
	return rows
}
