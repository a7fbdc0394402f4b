package web

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"millrace/internal/api"
	"millrace/internal/job"
)

// actionText is how an action is called.
type actionText struct {
	label  string // of its button
	past   string // of what it has done
	danger bool   // it is asked for twice
	about  string
}

var actionTexts = map[api.Action]actionText{
	api.ActionRetry:   {label: "Retry now", past: "Retried"},
	api.ActionRun:     {label: "Run now", past: "Made ready"},
	api.ActionKick:    {label: "Kick", past: "Kicked"},
	api.ActionRespawn: {label: "Respawn", past: "Respawned"},
	api.ActionMove:    {label: "Move to another queue", past: "Moved"},
	api.ActionBury:    {label: "Bury", past: "Buried"},
	api.ActionKill: {
		label: "Kill", past: "Killed", danger: true,
		about: "Killed jobs become dead jobs, and jobs that wait for them fail with them.",
	},
	api.ActionCancel: {
		label: "Cancel", past: "Cancelled", danger: true,
		about: "Cancelled jobs are gone, also if a worker has them at the moment. This cannot be undone.",
	},
	api.ActionDelete: {
		label: "Delete", past: "Deleted", danger: true,
		about: "Deleted jobs are gone, whatever their state. This cannot be undone.",
	},
}

// actionOrder is the order in which actions are offered. Those that are not named come last.
var actionOrder = []api.Action{
	api.ActionRetry, api.ActionRespawn, api.ActionRun, api.ActionKick, api.ActionBury, api.ActionMove, api.ActionKill,
	api.ActionCancel, api.ActionDelete,
}

func textOf(a api.Action) actionText {
	t, ok := actionTexts[a]
	if !ok {
		name := string(a)
		t = actionText{label: strings.ToUpper(name[:1]) + name[1:], past: "Done (" + name + "):", danger: true}
	}
	return t
}

func actionLabel(a api.Action) string { return textOf(a).label }

// actionsFor returns the actions that apply to some of the states; without states all of them.
func actionsFor(names []string) []api.Action {
	all := api.Actions()
	slices.SortStableFunc(all, func(a, b api.Action) int { return place(a) - place(b) })
	return slices.DeleteFunc(all, func(a api.Action) bool {
		return len(names) > 0 && !slices.ContainsFunc(names, a.Applies)
	})
}

func place(a api.Action) int {
	if i := slices.Index(actionOrder, a); i >= 0 {
		return i
	}
	return len(actionOrder)
}

// targetText is a job in the value of a form's field: where it is, and the state that it was seen in.
func targetText(r *api.JobRow) string {
	return url.Values{
		"n": {r.Namespace}, "q": {r.Queue}, "i": {strconv.FormatUint(uint64(r.ID), 10)}, "s": {r.State},
	}.Encode()
}

func parseTarget(text string) (api.Target, error) {
	q, err := url.ParseQuery(text)
	if err == nil {
		var id uint64
		if id, err = strconv.ParseUint(q.Get("i"), 10, 64); err == nil {
			return api.Target{Namespace: q.Get("n"), Queue: q.Get("q"), ID: job.ID(id), State: q.Get("s")}, nil
		}
	}
	return api.Target{}, refuse(http.StatusBadRequest, "The form cannot be read",
		"Nothing was done: a job is not named as it should be.")
}

// outcomePage tells what became of several jobs if some were refused.
type outcomePage struct {
	Action   api.Action
	Done     int
	Outcomes []api.Outcome // that were refused
	Back     string
}

// actOnJobs does something to the jobs that were chosen, or to all that fit a filter.
func (h *handler) actOnJobs(v *visit) error {
	form := v.r.PostForm
	action := api.Action(form.Get("action"))
	if !slices.Contains(api.Actions(), action) {
		return refuse(http.StatusBadRequest, "There is no such action", "Nothing was done. Choose one of the list.")
	}
	with, err := withOf(action, form)
	if err != nil {
		return err
	}
	if form.Get("scope") == "all" {
		return h.actOnAll(v, action, with)
	}
	targets := make([]api.Target, 0, len(form["job"]))
	for _, text := range form["job"] {
		t, err := parseTarget(text)
		if err != nil {
			return err
		}
		targets = append(targets, t)
	}
	if len(targets) == 0 {
		return refuse(http.StatusBadRequest, "No job was chosen",
			"Nothing was done. Tick the jobs that are meant, or choose all that match.")
	}
	text := textOf(action)
	if text.danger && !v.confirmed() {
		return v.confirm(confirmPage{
			Question: text.label + " " + plural(len(targets), "job", "jobs") + "?", Button: text.label,
			About: text.about,
		})
	}
	outcomes, err := h.service.ActAll(v.r.Context(), action, targets, with)
	if err != nil {
		return err
	}
	return v.outcome(action, outcomes, localPath(form.Get("back")))
}

// outcome tells what has become of the jobs. What was refused is shown one by one.
func (v *visit) outcome(action api.Action, outcomes []api.Outcome, back string) error {
	p := outcomePage{Action: action, Back: back}
	for _, o := range outcomes {
		if o.Done {
			p.Done++
		} else {
			p.Outcomes = append(p.Outcomes, o)
		}
	}
	if len(p.Outcomes) > 0 {
		return v.show(http.StatusConflict, "outcome", "Not everything was done", p)
	}
	return v.done(textOf(action).past+" "+plural(p.Done, "job", "jobs")+".", back)
}

// withOf reads what an action needs besides the jobs. The fields are always sent, and most actions need none.
func withOf(action api.Action, form url.Values) (api.With, error) {
	var with api.With
	if action == api.ActionMove {
		with.To = form.Get("to")
	}
	if text := form.Get("attempts"); text != "" && action == api.ActionRespawn {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return with, refuse(http.StatusBadRequest, "This is no number of attempts",
				"Nothing was done. Leave it empty for as many attempts as the jobs had.")
		}
		with.Attempts = uint32(n)
	}
	return with, nil
}

// withText tells what an action on all jobs does with them.
func withText(with api.With, about string) string {
	switch {
	case with.To != "":
		return "They are moved to the queue " + with.To + "."
	case with.Attempts > 0:
		return "They are ready as if they were new, with " +
			plural(int(with.Attempts), "attempt", "attempts") + " each."
	}
	return about
}

// actOnAll begins a bulk action.
func (h *handler) actOnAll(v *visit, action api.Action, with api.With) error {
	f, err := filterOf(jobList{}, v.r.PostForm)
	if err != nil {
		return err
	}
	text := textOf(action)
	if !v.confirmed() {
		about := withText(with, text.about)
		return v.confirm(confirmPage{
			Question: text.label + ": all jobs that match?", Button: text.label + ": all that match",
			About: "Filter: " + filterText(&f) + ". It concerns the jobs that fit when it begins, and can be stopped " +
				"at any time. " + about,
		})
	}
	b, err := h.service.StartBulk(v.r.Context(), action, f, with)
	if err != nil {
		return err
	}
	return v.redirect("/bulk/" + url.PathEscape(b.ID))
}

// filterText shows a filter in words.
func filterText(f *api.Filter) string {
	q := f.Query()
	if len(q) == 0 {
		return "every job"
	}
	names := make([]string, 0, len(q))
	for name := range q {
		names = append(names, name)
	}
	slices.Sort(names)
	parts := make([]string, 0, len(q))
	for _, name := range names {
		parts = append(parts, fmt.Sprintf("%s %q", strings.ReplaceAll(name, "_", " "), q.Get(name)))
	}
	return strings.Join(parts, ", ")
}
