package operator

import (
	"errors"
	"math"
	"strconv"

	"millrace/internal/api"
	"millrace/internal/job"
)

// errEnough ends a search that has looked at as much as one request may.
var errEnough = errors.New("enough for one request")

// byRef finds the jobs that an id or a key names, one in each namespace. An id does not tell in which queue the job is:
// one queue after the other is asked, a bounded number by each request.
func (sc *scan) byRef() error {
	var err error
	after := sc.at.Namespace
	if after != "" && sc.match.Namespace == "" { // it stopped in the middle of this one
		err = sc.refIn(after)
	}
	if err == nil {
		err = sc.eachNamespace(after, sc.refIn)
	}
	sc.complete = !errors.Is(err, errEnough)
	if !sc.complete {
		return nil
	}
	return err
}

// refIn finds the job of a namespace, from the position on.
func (sc *scan) refIn(namespace string) error {
	if sc.at.Namespace != namespace {
		sc.at.Namespace, sc.at.Queue = namespace, ""
	}
	found, err := sc.byID(namespace)
	if err == nil && !found {
		_, err = sc.byName(job.ByKey(namespace, sc.match.Ref))
	}
	if err != nil {
		return err
	}
	sc.at.Queue = ""
	sc.at.Examined++
	sc.at.Total++
	return nil
}

// byID looks for a job that has the text of the filter as its id.
func (sc *scan) byID(namespace string) (found bool, err error) {
	ids := sc.ids()
	if len(ids) == 0 {
		return false, nil
	}
	in := func(queue string) bool {
		for _, id := range ids {
			if !found && err == nil {
				found, err = sc.byName(job.ByID(namespace, queue, id))
			}
		}
		return !found && err == nil
	}
	if sc.match.Queue != "" {
		in(sc.match.Queue)
		return found, err
	}
	if sc.at.Queue == "" { // jobs that have a number are found at once
		for _, id := range ids {
			if found, err = sc.byName(job.Ref{
				Kind: job.RefNumber, Namespace: namespace, Number: id.Number(),
				ID: id,
			}); found || err != nil {
				return found, err
			}
		}
	}
	serr := sc.view.EachQueue(namespace, sc.at.Queue, func(q *job.QueueInfo) bool {
		if sc.reads.Queues >= askMax {
			err = errEnough
			return false
		}
		sc.reads.Queues++
		sc.at.Queue = q.Name
		return in(q.Name)
	})
	return found, errors.Join(err, serr)
}

// byName judges the job that a reference names. It reports whether there is one.
func (sc *scan) byName(ref job.Ref) (bool, error) {
	j, err := sc.view.Get(ref)
	if api.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	sc.reads.Loads++
	sc.reads.Bytes += len(j.Body) + len(j.Result)
	q := job.QueueInfo{Namespace: j.Namespace, Name: j.Queue}
	if sc.match.inQueue(&q) && sc.match.outside(&j) && sc.match.inside(&j) && (sc.skip == "" || j.Queue != sc.skip) {
		sc.found(&j)
		sc.hits++
	}
	return true, nil
}

// ids are the ids that the text of the filter may mean, the likeliest first.
func (sc *scan) ids() (ids []job.ID) {
	if n, err := strconv.ParseUint(sc.match.Ref, 10, 64); err == nil && n <= math.MaxInt64 {
		ids = append(ids, job.ID(n))
	}
	if id, ok := sc.find(sc.match.Ref); ok {
		ids = append(ids, id)
	}
	return ids
}
