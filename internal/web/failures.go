package web

import (
	"net/http"
	"net/url"

	"millrace/internal/api"
)

// failuresPage is what the page of failures shows.
type failuresPage struct {
	api.Failures
	Namespace, Queue string // that it is about; empty: all
	Groups           []failureGroup
	All              url.Values // the filter that fits all of them
	Self             string
}

// failureGroup is a group with what its row needs.
type failureGroup struct {
	api.FailureGroup
	Query url.Values // its filter
	Jobs  string     // the address of the list of its jobs
	Whole bool       // Count is how many there are
}

// All names the jobs of the group on its buttons.
func (g *failureGroup) All() string {
	if g.Whole {
		return "all " + number(g.Count)
	}
	return "all"
}

// Named reports whether the filter fits this group and no other.
func (g *failureGroup) Named() bool { return g.Error != "" }

// bar is a part of a small chart, in its own units.
type bar struct{ X, Y, H int }

const (
	barWidth    = 5
	chartHeight = 24
)

// Bars are the chart of the group: when its jobs failed.
func (g *failureGroup) Bars() []bar {
	most := 1
	for _, n := range g.Chart {
		most = max(most, n)
	}
	var bars []bar
	for i, n := range g.Chart {
		if n > 0 {
			h := max(2, chartHeight*n/most)
			bars = append(bars, bar{X: i * barWidth, Y: chartHeight - h, H: h})
		}
	}
	return bars
}

// failureAct is what the buttons of a group need.
type failureAct struct {
	Query url.Values
	All   string // how the jobs are called
	About string // for those who do not see where the button stands
	Back  string
}

func newFailureAct(q url.Values, all, about, back string) failureAct {
	return failureAct{q, all, about, back}
}

func (h *handler) failuresOf(namespace, queue string) (*failuresPage, error) {
	found, err := h.service.Failures(namespace, queue)
	if err != nil {
		return nil, err
	}
	p := &failuresPage{
		Failures: found, Namespace: namespace, Queue: queue,
		Self: link("/failures", "namespace", namespace, "queue", queue),
	}
	all := api.Filter{Namespace: namespace, Queue: queue, States: []string{"dead", "retrying"}}
	p.All = all.Query()
	for i := range found.Groups {
		g := failureGroup{FailureGroup: found.Groups[i], Whole: found.Complete()}
		g.Query = g.Filter.Query()
		g.Jobs = address("/jobs", g.Query)
		p.Groups = append(p.Groups, g)
	}
	return p, nil
}

func (h *handler) failures(v *visit) error {
	q := v.r.URL.Query()
	p, err := h.failuresOf(q.Get("namespace"), q.Get("queue"))
	if err != nil {
		return err
	}
	return v.show(http.StatusOK, "failures", "Failures", p)
}
