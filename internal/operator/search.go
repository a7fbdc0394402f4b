package operator

import (
	"millrace/internal/api"
	"millrace/internal/engine"
	"millrace/internal/job"
)

// What one request may look at. Whatever is asked, it then stops and hands out a cursor.
const (
	examineMax   = 2000     // entries of lists
	loadMax      = 2000     // jobs read whole
	loadBytesMax = 16 << 20 // bytes of those
	queueMax     = 20000    // queue records
	askMax       = 2000     // queues that are asked for one job
	chunkMax     = 128      // entries read at a time

	// Jobs are read whole in smaller chunks, which grow as long as no body is large.
	wholeChunkMax   = 16
	wholeChunkBytes = 1 << 20
)

// Jobs returns the jobs that fit a filter: in order of namespaces and queues, by state, each
// state in the order of its list. It does a bounded amount of work.
func (s *Service) Jobs(f api.Filter, page api.PageOf) (api.JobPage, error) {
	m, err := newMatcher(f)
	if err != nil {
		return api.JobPage{}, err
	}
	limit, at, err := beginPage(page, "jobs", fingerprint(f))
	if err != nil {
		return api.JobPage{}, err
	}
	out := api.JobPage{Jobs: []api.JobRow{}}
	workers := s.holders()
	err = s.search(func(v *engine.View) error {
		sc := &scan{
			view: v, match: m, at: at, limits: scanLimits{limit, examineMax, loadMax}, find: s.opts.FindID,
			sums: s.engine.Sums,
		}
		sc.bodies = m.whole() || !m.narrow()
		sc.found = func(j *job.Job) {
			if sc.bodies || m.Ref != "" || sc.load(j) {
				out.Jobs = append(out.Jobs, s.row(j, workers))
			}
		}
		err := sc.run()
		out.Progress = api.Progress{Examined: sc.at.Examined, Total: sc.at.Total, Complete: sc.complete}
		if !sc.complete {
			out.Next = sc.at.cursor()
		}
		s.tell(&sc.reads)
		return err
	})
	return out, err
}

// tell hands the figures of a request to who counts them.
func (s *Service) tell(r *Reads) {
	if s.opts.Reads != nil {
		s.opts.Reads(*r)
	}
}

// scanLimits bound one scan.
type scanLimits struct {
	hits    int // jobs found
	examine int // entries of lists
	load    int // jobs read whole to judge them
}

// scan looks for the jobs that a matcher wants, from a position on, and stops after so
// many found or so much read. The position is then where it goes on.
type scan struct {
	view   *engine.View
	match  *matcher
	at     position
	limits scanLimits
	skip   string // a queue to leave out; empty is none
	find   func(text string) (job.ID, bool)
	sums   func(namespace string) (job.Sums, error) // of all queues
	// bodies has every job read whole before it is judged; a matcher may need that.
	bodies bool
	// found is told each job, whole with bodies.
	found func(j *job.Job)

	reads    Reads
	chunk    int // jobs to read whole at a time
	hits     int
	failed   error
	complete bool
}

func (sc *scan) run() error {
	if sc.match.Ref != "" {
		return sc.byRef()
	}
	if sc.at.Total == 0 {
		if err := sc.count(); err != nil {
			return err
		}
	}
	sc.complete = true
	begun, behind := sc.at.Namespace != "", sc.at.Namespace != "" && sc.at.State == 0
	if sc.match.Namespace != "" && sc.match.Queue != "" {
		if !begun {
			sc.at.Namespace, sc.at.Queue, sc.at.State = sc.match.Namespace, sc.match.Queue, job.Scheduled
		}
		if !behind {
			sc.rest()
		}
		return sc.failed
	}
	var err error
	if sc.match.Namespace != "" {
		err = sc.namespace(begun && !behind)
	} else {
		err = sc.everywhere()
	}
	if err == nil {
		err = sc.failed
	}
	return err
}

// namespace looks through the queues of one namespace behind the position, and first through
// that of the position itself if there is something left of it.
func (sc *scan) namespace(inside bool) error {
	if inside && !sc.rest() {
		return nil
	}
	return sc.view.EachQueue(sc.match.Namespace, sc.at.Queue, func(q *job.QueueInfo) bool {
		sc.reads.Queues++
		return sc.queue(q, job.Scheduled)
	})
}

// everywhere looks through the queues of all namespaces from the position on.
func (sc *scan) everywhere() error {
	from := sc.at
	return sc.view.EachQueueFrom(from.Namespace, from.Queue, func(q *job.QueueInfo) bool {
		switch here := compareQueues(q, from.Namespace, from.Queue) == 0; {
		case here && from.State == 0:
			return true
		case here:
			sc.reads.Queues++
			return sc.queue(q, from.State)
		default:
			sc.reads.Queues++
			sc.at.After = ""
			return sc.queue(q, job.Scheduled)
		}
	})
}

// rest finishes the queue of the position. It reports whether to go on with the next.
func (sc *scan) rest() bool {
	q, ok, err := sc.view.Queue(sc.at.Namespace, sc.at.Queue)
	if err != nil || !ok {
		sc.failed = err
		return err == nil
	}
	sc.reads.Queues++
	return sc.queue(&q, sc.at.State)
}

// count finds out how many jobs there are to look at. Of all queues together the engine knows that.
func (sc *scan) count() error {
	if sc.match.Queue != "" {
		if sc.match.Queue == sc.skip {
			return nil
		}
		n, err := sc.countNamed(sc.match.Queue)
		sc.at.Total = n
		return err
	}
	sums, err := sc.sums(sc.match.Namespace)
	if err != nil {
		return err
	}
	sc.at.Total = sc.wanted(&sums.Counts)
	if sc.skip != "" {
		n, err := sc.countNamed(sc.skip)
		sc.at.Total -= min(n, sc.at.Total)
		return err
	}
	return nil
}

// countNamed counts the jobs to look at in the queues of a name.
func (sc *scan) countNamed(name string) (n uint64, err error) {
	err = sc.eachNamespace("", func(namespace string) error {
		q, _, err := sc.view.Queue(namespace, name)
		n += sc.wanted(&q.Counts)
		return err
	})
	return n, err
}

// wanted adds up the states to look at.
func (sc *scan) wanted(counts *[job.StateCount]uint64) (n uint64) {
	for s := job.Scheduled; int(s) < job.StateCount; s++ {
		if sc.match.states.Allow(s) {
			n += counts[s]
		}
	}
	return n
}

// eachNamespace visits the namespaces to look at behind one, until there is an error.
func (sc *scan) eachNamespace(after string, visit func(namespace string) error) error {
	if sc.match.Namespace != "" {
		return visit(sc.match.Namespace)
	}
	for {
		names, err := sc.view.Namespaces(after, api.PageMax)
		if err != nil || len(names) == 0 {
			return err
		}
		for _, name := range names {
			sc.reads.Queues++ // one is read to find it
			if err := visit(name); err != nil {
				return err
			}
		}
		after = names[len(names)-1]
	}
}

// queue looks through the lists of a queue from a state on. It reports whether to go on
// with the next queue.
func (sc *scan) queue(q *job.QueueInfo, from job.State) bool {
	sc.at.Namespace, sc.at.Queue = q.Namespace, q.Name
	if sc.match.inQueue(q) && (sc.skip == "" || q.Name != sc.skip) {
		for s := from; int(s) < job.StateCount; s++ {
			if q.Counts[s] == 0 || !sc.match.states.Allow(s) {
				sc.at.After = ""
				continue
			}
			sc.at.State = s
			if !sc.list() {
				sc.complete = false
				return false
			}
			sc.at.After = ""
		}
	}
	sc.at.State = 0
	if sc.reads.Queues >= queueMax {
		sc.complete = false
		return false
	}
	return true
}

// list looks through one list behind the position. It reports whether it came to its end.
func (sc *scan) list() bool {
	for {
		room := sc.room()
		if room <= 0 {
			return false
		}
		o := engine.ListOptions{
			Namespace: sc.at.Namespace, Queue: sc.at.Queue, State: sc.at.State, After: sc.at.After, Limit: room,
			Bodies: sc.bodies,
		}
		page, err := sc.view.List(o)
		if err != nil {
			sc.failed = err
			return false
		}
		if sc.bodies {
			sc.weigh(page.Jobs)
		}
		done := sc.judge(page.Jobs)
		if sc.failed != nil {
			return false
		}
		sc.reads.Jobs += done
		sc.at.Examined += uint64(done) //nolint:gosec // a length
		if done < len(page.Jobs) {
			return sc.stopBehind(o, done)
		}
		if page.Next == "" {
			return true
		}
		sc.at.After = page.Next
	}
}

// room returns how many entries may be read next.
func (sc *scan) room() int {
	if sc.reads.Bytes >= loadBytesMax {
		return 0
	}
	room := min(chunkMax, sc.limits.hits-sc.hits, sc.limits.examine-sc.reads.Jobs)
	if sc.bodies {
		room = min(room, sc.limits.load-sc.reads.Loads, max(1, sc.chunk))
	}
	return room
}

// weigh counts jobs that have been read whole, and says how many to read next.
func (sc *scan) weigh(jobs []job.Job) {
	largest := 1
	for i := range jobs {
		size := len(jobs[i].Body) + len(jobs[i].Result)
		sc.reads.Bytes += size
		largest = max(largest, size)
	}
	sc.reads.Loads += len(jobs)
	sc.chunk = max(1, min(2*max(1, sc.chunk), wholeChunkMax, wholeChunkBytes/largest))
}

// judge looks at jobs one after the other, and returns how many it has dealt with.
func (sc *scan) judge(jobs []job.Job) int {
	for i := range jobs {
		if !sc.bodies && sc.reads.Bytes >= loadBytesMax {
			return i
		}
		j := &jobs[i]
		if !sc.match.outside(j) || sc.match.whole() && !sc.match.inside(j) {
			continue
		}
		sc.found(j)
		if sc.failed != nil {
			return i
		}
		sc.hits++
		*j = job.Job{} // let the body go
	}
	return len(jobs)
}

// stopBehind sets the position behind the first n jobs of a page that was not used up.
func (sc *scan) stopBehind(o engine.ListOptions, n int) bool {
	if n > 0 {
		o.Limit = n
		page, err := sc.view.List(o)
		if err != nil {
			sc.failed = err
			return false
		}
		sc.at.After = page.Next
	}
	return false
}

// load reads a job whole, in place. It reports whether the job is there.
func (sc *scan) load(j *job.Job) bool {
	whole, err := sc.view.Get(job.ByID(j.Namespace, j.Queue, j.ID))
	if err != nil {
		sc.failed = err
		return false
	}
	sc.reads.Loads++
	sc.reads.Bytes += len(whole.Body) + len(whole.Result)
	*j = whole
	return true
}
