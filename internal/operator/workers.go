package operator

import (
	"slices"
	"strings"

	"millrace/internal/api"
	"millrace/internal/job"
)

// WorkerRegistry knows worker processes that introduce themselves.
type WorkerRegistry interface {
	// Namespace is where the workers fetch jobs.
	Namespace() string
	// Workers returns the worker processes that are connected, in the order in which they came.
	Workers() []api.Worker
	// Signal tells a worker, or with an empty id all of them, to be quiet or to stop. It returns
	// how many there are.
	Signal(id string, s api.Signal) int
}

// Workers lists the worker processes that are connected, by namespace and id.
func (s *Service) Workers(page api.PageOf) (api.WorkerPage, error) {
	out := api.WorkerPage{Workers: []api.Worker{}}
	limit, at, err := beginPage(page, "workers", "")
	if err != nil {
		return out, err
	}
	for _, w := range s.workers() {
		if at.Namespace != "" && compareWorkers(w, api.Worker{Namespace: at.Namespace, ID: at.After}) <= 0 {
			continue
		}
		if len(out.Workers) == limit {
			last := out.Workers[limit-1]
			at.Namespace, at.After = last.Namespace, last.ID
			out.Next = at.cursor()
			break
		}
		out.Workers = append(out.Workers, w)
	}
	return out, nil
}

func compareWorkers(a, b api.Worker) int {
	if n := strings.Compare(a.Namespace, b.Namespace); n != 0 {
		return n
	}
	return strings.Compare(a.ID, b.ID)
}

// workers returns all of them in order.
func (s *Service) workers() []api.Worker {
	var all []api.Worker
	for _, r := range s.opts.Workers {
		for _, w := range r.Workers() {
			w.Namespace, w.Holder = r.Namespace(), api.HolderText(w.Leases)
			if w.Labels == nil {
				w.Labels = []string{}
			}
			all = append(all, w)
		}
	}
	slices.SortFunc(all, compareWorkers)
	return all
}

// WorkerOf returns the worker process that a holder is, as leases show it; not ok if it is not connected, or has not
// introduced itself.
func (s *Service) WorkerOf(holder string) (api.Worker, bool) {
	all := s.workers()
	i := slices.IndexFunc(all, func(w api.Worker) bool { return w.Holder == holder })
	if i < 0 {
		return api.Worker{}, false
	}
	return all[i], true
}

// holders tells which worker a holder is.
func (s *Service) holders() map[job.Holder]string {
	names := make(map[job.Holder]string)
	if s.opts.AddNames != nil {
		s.opts.AddNames(names)
	}
	for _, w := range s.workers() {
		names[w.Leases] = w.ID
	}
	return names
}

// SignalWorkers tells a worker of a namespace, or with an empty id all workers, to be quiet or to stop. With
// an empty namespace it is for all namespaces. It returns how many there are.
func (s *Service) SignalWorkers(namespace, id string, sig api.Signal) (int, error) {
	if sig != api.SignalQuiet && sig != api.SignalStop {
		return 0, api.Invalid("signal: %q is neither quiet nor stop", sig)
	}
	count := 0
	for _, r := range s.opts.Workers {
		if namespace == "" || namespace == r.Namespace() {
			count += r.Signal(id, sig)
		}
	}
	if id != "" && count == 0 {
		return 0, api.NotFound("there is no worker %q in namespace %q", id, namespace)
	}
	return count, nil
}

// Connections lists the connections by protocol.
func (s *Service) Connections() []api.Connections {
	if s.opts.Connections == nil {
		return []api.Connections{}
	}
	return s.opts.Connections()
}
