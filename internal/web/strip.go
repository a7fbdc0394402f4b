package web

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"millrace/internal/api"
	"millrace/internal/job"
)

// strip is what every page begins with: how many jobs there are, and what is wrong.
type strip struct {
	States   []stripState
	Concerns []concern
	Nav      []navCount // what stands beside the entries of the menu
	// Overview leaves the states out: that page has larger ones.
	Overview bool
}

// stripState is a state that people look for first.
type stripState struct {
	Name  string
	Path  string // of its list
	Count uint64
	Level string // warn or bad; empty: nothing is wrong
}

// navCount is a number beside an entry of the menu.
type navCount struct {
	Path  string // of the entry
	Count uint64
	Level string
}

// ID is that of its element.
func (n navCount) ID() string { return "nav-" + strings.TrimPrefix(n.Path, "/") }

// concern is one in words, with a link to what it is about.
type concern struct {
	About string
	Link  string
	Level string
}

func levelOf(c *api.Concern) string {
	if c.Severe {
		return "bad"
	}
	return "warn"
}

// concernLink is the address of the page that helps.
func concernLink(c *api.Concern) string {
	switch c.Kind {
	case api.ConcernSpace:
		return "/storage"
	case api.ConcernDied:
		return "/failures"
	case api.ConcernWaiting, api.ConcernPaused:
	}
	return queueLink(c.Namespace, c.Queue)
}

// stripOf returns the strip; nil if nothing is known, as on a node that does not lead.
func (h *handler) stripOf() *strip {
	sample := h.service.Live()
	if sample.At.IsZero() {
		return nil
	}
	s := new(strip)
	_, checks := h.service.Health()
	for _, c := range checks {
		if !c.OK && c.Name != "space" { // of which there is a concern
			s.Concerns = append(s.Concerns, concern{
				About: "The server is not ready: " + c.About + ".",
				Link:  "/storage", Level: "bad",
			})
		}
	}
	levels := make(map[api.ConcernKind]string)
	for i := range sample.Concerns {
		c := &sample.Concerns[i]
		levels[c.Kind] = levelOf(c)
		s.Concerns = append(s.Concerns, concern{c.About, concernLink(c), levelOf(c)})
	}
	count := func(state job.State) uint64 { return sample.Counts[state.Name()] }
	s.States = []stripState{
		{job.Leased.Name(), "/running", count(job.Leased), ""},
		{job.Ready.Name(), link("/jobs", "state", job.Ready.Name()), count(job.Ready), levels[api.ConcernWaiting]},
		{job.Scheduled.Name(), "/scheduled", count(job.Scheduled), ""},
		{job.Retrying.Name(), "/retries", count(job.Retrying), ""},
		{job.Dead.Name(), "/dead", count(job.Dead), levels[api.ConcernDied]},
	}
	s.Nav = []navCount{
		{"/queues", uint64(max(0, sample.Queues)), cmp.Or(levels[api.ConcernWaiting], levels[api.ConcernPaused])},
		{"/failures", count(job.Retrying) + count(job.Dead), levels[api.ConcernDied]},
		{"/running", count(job.Leased), ""},
		{"/scheduled", count(job.Scheduled), ""},
		{"/retries", count(job.Retrying), ""},
		{"/dead", count(job.Dead), levels[api.ConcernDied]},
	}
	return s
}

// Beside returns the number beside an entry of the menu, if there is one.
func (s *strip) Beside(path string) *navCount {
	if s == nil {
		return nil
	}
	if i := slices.IndexFunc(s.Nav, func(n navCount) bool { return n.Path == path }); i >= 0 {
		return &s.Nav[i]
	}
	return nil
}

// LevelOf tells whether something is wrong with the jobs of a state.
func (s *strip) LevelOf(state string) string {
	if s == nil {
		return ""
	}
	for i := range s.States {
		if s.States[i].Name == state {
			return s.States[i].Level
		}
	}
	return ""
}

// strip writes the strip again, for a page that asks for it now and then.
func (h *handler) strip(v *visit) error {
	return v.render(http.StatusOK, "overview", "strip-update", "", nil)
}
