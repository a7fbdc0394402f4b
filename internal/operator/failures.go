package operator

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"millrace/internal/api"
	"millrace/internal/engine"
	"millrace/internal/job"
)

// What one look at failures may read.
const (
	failureQueues = 5000 // queue records
	failureLoads  = 2000 // jobs read whole
	failureLeast  = 20   // jobs of one list, however many lists there are
	failureGroups = 100
	failureText   = 80 // bytes of an error that name a group
)

// failureGroup is a group that is being made.
type failureGroup struct {
	api.FailureGroup

	times []time.Time
}

// failureStates are the states of jobs that have failed and are kept.
func failureStates() []string { return []string{job.Dead.Name(), job.Retrying.Name()} }

// failureList is a list of jobs that have failed.
type failureList struct {
	namespace, queue string
	state            job.State
	count            uint64
}

// Failures groups what has failed: in one queue, or with empty names in all.
func (s *Service) Failures(namespace, queue string) (api.Failures, error) {
	out := api.Failures{Groups: []api.FailureGroup{}}
	groups := make(map[[3]string]*failureGroup)
	workers := s.holders()
	err := s.search(func(v *engine.View) error {
		lists, err := failureLists(v, namespace, queue)
		if err != nil {
			return err
		}
		for _, l := range lists {
			out.Total += l.count
		}
		if queue == "" { // also of the queues behind those that were looked at
			sums, err := s.engine.Sums(namespace)
			if err != nil {
				return err
			}
			out.Total = sums.Counts[job.Dead] + sums.Counts[job.Retrying]
		}
		reads := Reads{Queues: len(lists)}
		most := max(failureLeast, failureLoads/max(1, len(lists)))
		for _, l := range lists {
			if err := s.eachFailure(v, &l, most, &reads,
				func(j *job.Job) { s.addFailure(groups, workers, j, queue != "") }); err != nil {
				return err
			}
		}
		out.Looked = uint64(reads.Loads) //nolint:gosec // a count
		s.tell(&reads)
		return nil
	})
	out.Total = max(out.Total, out.Looked)
	found := slices.Collect(maps.Values(groups))
	slices.SortFunc(found, func(a, b *failureGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), b.Last.Compare(a.Last), strings.Compare(a.Type, b.Type),
			strings.Compare(a.Error, b.Error))
	})
	chartFailures(&out, found[:min(len(found), failureGroups)])
	return out, err
}

// failureLists finds the lists of dead and of retrying jobs, the longest first.
func failureLists(v *engine.View, namespace, queue string) ([]failureList, error) {
	var lists []failureList
	add := func(q *job.QueueInfo) {
		for _, state := range []job.State{job.Dead, job.Retrying} {
			if n := q.Counts[state]; n > 0 {
				lists = append(lists, failureList{q.Namespace, q.Name, state, n})
			}
		}
	}
	if queue != "" {
		q, _, err := v.Queue(namespace, queue)
		add(&q)
		return lists, err
	}
	seen := 0
	visit := func(q *job.QueueInfo) bool {
		add(q)
		seen++
		return seen < failureQueues
	}
	var err error
	if namespace != "" {
		err = v.EachQueue(namespace, "", visit)
	} else {
		err = v.EachQueueFrom("", "", visit)
	}
	slices.SortStableFunc(lists, func(a, b failureList) int { return cmp.Compare(b.count, a.count) })
	return lists, err
}

// eachFailure visits at most n of the newest jobs of a list.
func (s *Service) eachFailure(v *engine.View, l *failureList, most int, reads *Reads, visit func(*job.Job)) error {
	o := engine.ListOptions{Namespace: l.namespace, Queue: l.queue, State: l.state, Reverse: true, Bodies: true}
	for done := 0; done < most; {
		o.Limit = min(wholeChunkMax, most-done, failureLoads-reads.Loads)
		if o.Limit <= 0 || reads.Bytes >= loadBytesMax {
			return nil
		}
		page, err := v.List(o)
		if err != nil {
			return err
		}
		for i := range page.Jobs {
			j := &page.Jobs[i]
			reads.Bytes += len(j.Body) + len(j.Result)
			if !j.Flags.Has(job.FlagTombstone) {
				visit(j)
			}
		}
		reads.Loads += len(page.Jobs)
		done += len(page.Jobs)
		if o.After = page.Next; o.After == "" {
			return nil
		}
	}
	return nil
}

// addFailure adds a job to its group, which is one of its queue if it has no type, or if only that queue is looked at.
func (s *Service) addFailure(groups map[[3]string]*failureGroup, workers map[job.Holder]string, j *job.Job, here bool) {
	last := job.Failure{At: j.Since}
	if n := len(j.Failures); n > 0 {
		last = j.Failures[n-1]
	}
	told := api.FailureOf(&last)
	text := cmp.Or(commonPart(last.Message), last.Type)
	if len(j.Failures) == 0 {
		text = ""
	} else if text == "" {
		text = told.Kind
	}
	key := [3]string{j.Type, text}
	filter := api.Filter{States: failureStates(), Type: j.Type, Error: text}
	if here || j.Type == "" { // a filter cannot ask for no type
		filter.Namespace, filter.Queue, key[2] = j.Namespace, j.Queue, j.Namespace+"\x00"+j.Queue
	}
	g := groups[key]
	at := last.At.Std()
	if g == nil {
		g = &failureGroup{FailureGroup: api.FailureGroup{
			Type: j.Type, Error: text, First: at,
			Last: at, Filter: filter,
		}}
		groups[key] = g
	}
	g.Count++
	if j.State == job.Dead {
		g.Dead++
	} else {
		g.Retrying++
	}
	g.times = append(g.times, at)
	if at.Before(g.First) {
		g.First = at
	}
	if g.Count == 1 || at.After(g.Last) {
		g.Last, g.Sample, g.Message = at, s.row(j, workers), strings.TrimPrefix(last.Type+": "+last.Message, ": ")
	}
}

// commonPart is the beginning of an error up to what differs from one to the next: a number, or something in quotes.
func commonPart(message string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(message), "\n")
	end := strings.IndexFunc(first, func(r rune) bool {
		return unicode.IsDigit(r) || r == '"' || r == '\'' || r == '`'
	})
	if end > 7 {
		first = first[:end]
	}
	if len(first) > failureText {
		first = strings.ToValidUTF8(first[:failureText], "")
	}
	return strings.TrimSpace(first)
}

// chartFailures adds groups, with their failures counted over time.
func chartFailures(f *api.Failures, groups []*failureGroup) {
	for i, g := range groups {
		if i == 0 || g.First.Before(f.From) {
			f.From = g.First
		}
		if g.Last.After(f.To) {
			f.To = g.Last
		}
	}
	step := f.To.Sub(f.From)/api.FailureBuckets + 1
	for _, g := range groups {
		for _, at := range g.times {
			g.Chart[at.Sub(f.From)/step]++
		}
		f.Groups = append(f.Groups, g.FailureGroup)
	}
}
