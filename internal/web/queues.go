package web

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"millrace/internal/api"
	"millrace/internal/job"
)

// queuesPage is what the list of queues shows.
type queuesPage struct {
	Filter     api.QueueFilter
	Queues     []queueRow
	States     []string // in which there are jobs, or usually are
	Namespaces bool     // there is more than one
	links
}

// queueRow is a queue with a bar of its jobs by state.
type queueRow struct {
	api.Queue
	Bar []segment
}

// segment is a part of a bar, in its own units.
type segment struct {
	State string
	X, W  int
}

// barLength is how long a bar is.
const barLength = 120

// barOf makes the bar of a queue. A state with few jobs is still to be seen.
func barOf(q *api.Queue) []segment {
	var out []segment
	x := 0
	for _, state := range api.ShownStates() {
		if n := q.Counts[state]; n > 0 {
			w := max(3, int(barLength*float64(n)/float64(q.Jobs)))
			out = append(out, segment{state, x, w})
			x += w
		}
	}
	return out
}

func (h *handler) queues(v *visit) error {
	q := v.r.URL.Query()
	f := api.QueueFilter{Namespace: q.Get("namespace"), Name: q.Get("name")}
	found, err := h.service.Queues(f, api.PageOf{Cursor: q.Get("cursor")})
	if err != nil {
		return err
	}
	names, err := h.service.Namespaces(api.PageOf{Limit: 2})
	if err != nil {
		return err
	}
	p := queuesPage{Filter: f, Namespaces: len(names.Namespaces) > 1}
	for i := range found.Queues {
		p.Queues = append(p.Queues, queueRow{found.Queues[i], barOf(&found.Queues[i])})
	}
	for _, s := range api.ShownStates() {
		if slices.Contains(usual, s) || slices.ContainsFunc(found.Queues,
			func(q api.Queue) bool { return q.Counts[s] > 0 }) {
			p.States = append(p.States, s)
		}
	}
	p.links = paging("/queues", filled("namespace", f.Namespace, "name", f.Name), q, found.Next)
	return v.show(http.StatusOK, "queues", "Queues", p)
}

// queuePage is what the page of one queue shows.
type queuePage struct {
	Queue  api.Queue
	States []string
	Shown  []string // those of the states that have jobs, or usually have
	Totals []string
	Self   string

	Periods  []period
	Period   period
	First    []api.JobRow
	Failures *failuresPage
	Workers  []queueWorker
}

// queueWorker is who holds jobs of a queue.
type queueWorker struct {
	Name, Through string
	Holder        string
	Jobs          int
}

const (
	firstShown    = 10
	failuresShown = 5
	workersShown  = 20
)

// usual are the states that are shown although no job is in them.
var usual = []string{job.Ready.Name(), job.Leased.Name(), job.Scheduled.Name(), job.Retrying.Name(), job.Dead.Name()}

// workersOf tells who holds jobs, those with most first.
func workersOf(jobs []api.JobRow) []queueWorker {
	var out []queueWorker
	for i := range jobs {
		l := jobs[i].Lease
		if l == nil {
			continue
		}
		w := queueWorker{Name: cmp.Or(l.Worker, l.Holder), Through: l.FetchedBy, Holder: l.Holder}
		at := slices.IndexFunc(out, func(o queueWorker) bool { return o.Name == w.Name && o.Through == w.Through })
		if at < 0 {
			at = len(out)
			out = append(out, w)
		}
		out[at].Jobs++
	}
	slices.SortStableFunc(out, func(a, b queueWorker) int { return cmp.Compare(b.Jobs, a.Jobs) })
	return out[:min(len(out), workersShown)]
}

// details reads what the page shows besides the queue itself.
func (p *queuePage) details(h *handler) (err error) {
	jobs := func(state job.State, limit int) []api.JobRow {
		f := api.Filter{Namespace: p.Queue.Namespace, Queue: p.Queue.Name, States: []string{state.Name()}}
		found, jerr := h.service.Jobs(f, api.PageOf{Limit: limit})
		err = cmp.Or(err, jerr)
		return found.Jobs
	}
	running := jobs(job.Leased, pageRows)
	p.Workers = workersOf(running)
	if p.First = jobs(job.Ready, firstShown); len(p.First) == 0 {
		p.First = running[:min(len(running), firstShown)]
	}
	if err != nil {
		return err
	}
	p.Failures, err = h.failuresOf(p.Queue.Namespace, p.Queue.Name)
	if err == nil {
		p.Failures.Groups = p.Failures.Groups[:min(len(p.Failures.Groups), failuresShown)]
	}
	return err
}

func (h *handler) queue(v *visit) error {
	q := v.r.URL.Query()
	found, err := h.service.Queue(q.Get("namespace"), q.Get("queue"))
	if err != nil {
		return err
	}
	p := queuePage{Queue: found, States: api.ShownStates(), Self: queueLink(found.Namespace, found.Name)}
	for _, s := range p.States {
		if slices.Contains(usual, s) || found.Counts[s] > 0 {
			p.Shown = append(p.Shown, s)
		}
	}
	p.Periods, p.Period = periods[1:], periods[1]
	for _, other := range p.Periods {
		if other.Parts == q.Get("period") {
			p.Period = other
		}
	}
	p.Failures = new(failuresPage)
	if !v.partial() { // else only the figures are wanted
		if err := p.details(h); err != nil {
			return err
		}
	}
	for c := range job.CounterCount {
		p.Totals = append(p.Totals, job.Counter(c).String())
	}
	return v.show(http.StatusOK, "queue", "Queue "+found.Name, p)
}

func queueLink(namespace, name string) string {
	return link("/queue", "namespace", namespace, "queue", name)
}

// confirmPage asks whether something is really meant.
type confirmPage struct {
	Question string
	About    string
	Button   string
	Path     string // of the form
	Fields   []field
	Back     string
}

type field struct{ Name, Value string }

// fieldsOf returns what a form has sent, so that it can be sent again.
func fieldsOf(form url.Values) []field {
	var out []field
	for name, values := range form {
		for _, value := range values {
			out = append(out, field{name, value})
		}
	}
	return out
}

// confirm asks first, unless it has been.
func (v *visit) confirm(p confirmPage) error {
	p.Path, p.Fields, p.Back = v.r.URL.Path, fieldsOf(v.r.PostForm), localPath(v.r.PostForm.Get("back"))
	return v.show(http.StatusOK, "confirm", p.Question, p)
}

func (v *visit) confirmed() bool { return v.r.PostForm.Get("confirm") == "yes" }

// queueAction is what a form does to a queue: it returns what it has done, and where to go then if not back.
type queueAction struct {
	question string // asked first; empty asks nothing
	about    string
	button   string
	do       func(h *handler, v *visit, namespace, name string) (notice, to string, err error)
}

// queueActions are all of them by name.
var queueActions = map[string]queueAction{
	"pause":  {do: (*handler).pauseQueue},
	"resume": {do: (*handler).resumeQueue},
	"purge": {
		question: "Delete the jobs of one state?", button: "Delete them", do: (*handler).purgeQueue,
		about: "All jobs of the queue that are in this state are deleted at once. This cannot be undone.",
	},
	"empty": {
		question: "Delete all jobs of the queue?", button: "Delete all jobs", do: (*handler).emptyQueue,
		about: "All its jobs are deleted, in every state, running ones too. The queue, its settings and counters " +
			"stay. This cannot be undone.",
	},
	"remove": {
		question: "Remove the queue?", button: "Remove the queue", do: (*handler).removeQueue,
		about: "The queue is removed with all its jobs in every state, its settings and counters. This " +
			"cannot be undone.",
	},
	"respawn": {do: (*handler).respawnQueue},
	"limit":   {do: (*handler).limitQueue},
	"hook":    {do: (*handler).hookQueue},
	"fair":    {do: (*handler).fairQueue},
}

func (h *handler) actOnQueue(v *visit) error {
	form := v.r.PostForm
	namespace, name := form.Get("namespace"), form.Get("queue")
	act, ok := queueActions[form.Get("action")]
	if !ok {
		return refuse(http.StatusBadRequest, "There is no such action", "Nothing was done.")
	}
	if act.question != "" && !v.confirmed() {
		found, err := h.service.Queue(namespace, name)
		if err != nil {
			return err
		}
		about, concerned := act.about, found.Jobs
		if state := form.Get("state"); state != "" {
			about, concerned = "State: "+state+". "+about, found.Counts[state]
		}
		return v.confirm(confirmPage{
			Question: act.question, Button: act.button,
			About: "Queue " + name + " in namespace " + namespace + ", " + number(concerned) + " jobs now. " + about,
		})
	}
	notice, to, err := act.do(h, v, namespace, name)
	if err != nil {
		return err
	}
	if to == "" {
		to = localPath(form.Get("back"))
	}
	return v.done(notice, to)
}

func (h *handler) pauseQueue(v *visit, namespace, name string) (notice, to string, err error) {
	var limit time.Duration
	if text := v.r.PostForm.Get("for"); text != "" {
		if limit, err = time.ParseDuration(text); err != nil || limit <= 0 {
			return "", "", refuse(http.StatusBadRequest, "This is no length of time",
				"Nothing was done. Choose one of the list.")
		}
	}
	if _, err = h.service.Pause(v.r.Context(), namespace, name, limit); err != nil {
		return "", "", err
	}
	if limit > 0 {
		return "Queue " + name + " is paused for " + span(limit.Seconds()) + ".", "", nil
	}
	return "Queue " + name + " is paused.", "", nil
}

func (h *handler) resumeQueue(v *visit, namespace, name string) (notice, to string, err error) {
	_, err = h.service.Resume(v.r.Context(), namespace, name)
	return "Queue " + name + " goes on.", "", err
}

func (h *handler) purgeQueue(v *visit, namespace, name string) (notice, to string, err error) {
	state := v.r.PostForm.Get("state")
	n, err := h.service.Purge(v.r.Context(), namespace, name, state)
	return "Deleted " + plural(n.Jobs, "job", "jobs") + " (" + state + ") of queue " + name + ".", "", err
}

func (h *handler) emptyQueue(v *visit, namespace, name string) (notice, to string, err error) {
	n, err := h.service.RemoveQueue(v.r.Context(), namespace, name, api.RemoveOptions{Keep: true})
	return "Deleted " + plural(n.Jobs, "job", "jobs") + " of queue " + name + ".", "", err
}

func (h *handler) removeQueue(v *visit, namespace, name string) (notice, to string, err error) {
	n, err := h.service.RemoveQueue(v.r.Context(), namespace, name, api.RemoveOptions{})
	return "Removed queue " + name + " with " + plural(n.Jobs, "job", "jobs") + ".", "/queues", err
}

func (h *handler) respawnQueue(v *visit, namespace, name string) (notice, to string, err error) {
	limit, err := strconv.Atoi(v.r.PostForm.Get("limit"))
	if err != nil {
		return "", "", refuse(http.StatusBadRequest, "This is no number of jobs", "Nothing was done.")
	}
	attempts, err := strconv.ParseUint(v.r.PostForm.Get("attempts"), 10, 32)
	if err != nil {
		return "", "", refuse(http.StatusBadRequest, "This is no number of attempts", "Nothing was done.")
	}
	n, err := h.service.Respawn(v.r.Context(), namespace, name,
		api.RespawnOptions{Limit: limit, Attempts: uint32(attempts)})
	return plural(n.Jobs, "dead job is", "dead jobs are") + " ready again in queue " + name + ".", "", err
}

func (h *handler) limitQueue(v *visit, namespace, name string) (notice, to string, err error) {
	form := v.r.PostForm
	l := api.Limits{Rate: form.Get("rate"), GroupRate: form.Get("group-rate")}
	for field, into := range map[string]*uint32{
		"concurrency": &l.Concurrency, "worker": &l.Worker, "burst": &l.Burst, "group-concurrency": &l.GroupConcurrency,
		"group-burst": &l.GroupBurst,
	} {
		n, err := strconv.ParseUint(cmp.Or(form.Get(field), "0"), 10, 32)
		if err != nil {
			return "", "", refuse(http.StatusBadRequest, "This is no number of jobs", "Nothing was done.")
		}
		*into = uint32(n)
	}
	if l.SlotSeconds, err = strconv.ParseFloat(form.Get("slot"), 64); err != nil {
		return "", "", refuse(http.StatusBadRequest, "This is no number of seconds", "Nothing was done.")
	}
	now, err := h.service.SetLimits(v.r.Context(), namespace, name, l)
	if now.Limits == nil {
		return "Queue " + name + " has no limits.", "", err
	}
	return "Queue " + name + " is limited.", "", err
}

func (h *handler) hookQueue(v *visit, namespace, name string) (notice, to string, err error) {
	form := v.r.PostForm
	if form.Get("push") == "" && form.Get("url") == "" {
		err = h.service.DropHook(v.r.Context(), namespace, name)
		if p, ok := errors.AsType[*api.Problem](err); ok && p.Status == http.StatusNotFound {
			err = nil // it has none, which is what was wanted
		}
		return "Queue " + name + " has no hook.", "", err
	}
	_, err = h.service.SetHook(v.r.Context(), namespace, name,
		api.NewHook{Push: form.Get("push"), URL: form.Get("url")})
	return "Queue " + name + " has a hook.", "", err
}

// fairQueue has the groups of a queue take turns, or not. Weights are lines such as gold=5.
func (h *handler) fairQueue(v *visit, namespace, name string) (notice, to string, err error) {
	f := api.Fairness{On: v.r.PostForm.Get("fair") == "on", Weights: map[string]uint32{}}
	for line := range strings.Lines(v.r.PostForm.Get("weights")) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		group, text, _ := strings.Cut(line, "=")
		n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 32)
		if err != nil {
			return "", "", refuse(http.StatusBadRequest, "This is no weight",
				"Give one group and its number in each line, such as gold=5. Nothing was done.")
		}
		f.Weights[strings.TrimSpace(group)] = uint32(n)
	}
	_, err = h.service.SetFairness(v.r.Context(), namespace, name, f)
	if f.On {
		return "The groups of queue " + name + " take turns.", "", err
	}
	return "The jobs of queue " + name + " are given out in their order.", "", err
}
