package operator

import (
	"encoding/json"
	"maps"
	"slices"

	"millrace/internal/api"
	"millrace/internal/job"
)

// RuledSpace has a value for every queue of which a file of the configuration has set something: a Ruled, by its Name.
const RuledSpace = "server.queues"

// Ruled says what a file has set of a queue. Operators change that in the file, and everything else of the queue here.
type Ruled struct {
	Namespace string   `json:"namespace"`
	Queue     string   `json:"queue"`
	Sets      []string `json:"sets"` // names of Limits as JSON has them, and RuledFair
}

// RuledFair stands for the whole Fairness of a queue.
const RuledFair = "fair"

// Name returns the name of the value.
func (r *Ruled) Name() string { return r.Namespace + "\x00" + r.Queue }

// ruledLimits copy what the name stands for.
var ruledLimits = map[string]func(to, from *job.Limits){
	"concurrency":       func(to, from *job.Limits) { to.Concurrency = from.Concurrency },
	"worker":            func(to, from *job.Limits) { to.Worker = from.Worker },
	"slot_seconds":      func(to, from *job.Limits) { to.SlotFor = from.SlotFor },
	"rate":              func(to, from *job.Limits) { to.Rate, to.Per = from.Rate, from.Per },
	"burst":             func(to, from *job.Limits) { to.Burst = from.Burst },
	"group_concurrency": func(to, from *job.Limits) { to.GroupConcurrency = from.GroupConcurrency },
	"group_rate":        func(to, from *job.Limits) { to.GroupRate, to.GroupPer = from.GroupRate, from.GroupPer },
	"group_burst":       func(to, from *job.Limits) { to.GroupBurst = from.GroupBurst },
}

// Limits returns all limits of a queue, where those that the file has set are as in file.
func (r *Ruled) Limits(all, file job.Limits) job.Limits {
	for _, name := range r.Sets {
		if set := ruledLimits[name]; set != nil {
			set(&all, &file)
		}
	}
	return all
}

// Fair reports whether the file has set the fairness of the queue.
func (r *Ruled) Fair() bool { return slices.Contains(r.Sets, RuledFair) }

// ruled returns what a file has set of a queue, and the queue.
func (s *Service) ruled(namespace, name string) (r Ruled, q job.QueueInfo, err error) {
	r = Ruled{Namespace: namespace, Queue: name}
	value, ok, err := s.engine.Value(RuledSpace, r.Name())
	if err != nil || !ok {
		return r, q, api.Refusal(err)
	}
	if err := json.Unmarshal(value, &r); err != nil {
		return r, q, err
	}
	q, _, err = s.engine.Queue(namespace, name)
	return r, q, api.Refusal(err)
}

// mayLimit refuses to change a limit that a file has set.
func (s *Service) mayLimit(namespace, name string, to job.Limits) error {
	r, q, err := s.ruled(namespace, name)
	if err != nil {
		return err
	}
	wanted, _ := to.Tidy() // the engine refuses what is wrong
	if kept, _ := r.Limits(to, q.Limits).Tidy(); kept != wanted {
		return api.ProblemConflict.New("a file of the configuration has set limits of queue %q: change them there, "+
			"and reload it", name)
	}
	return nil
}

// mayTurn refuses to change the fairness that a file has set.
func (s *Service) mayTurn(namespace, name string, to job.Fairness) error {
	r, q, err := s.ruled(namespace, name)
	if err != nil || !r.Fair() {
		return err
	}
	if to, _ = to.Tidy(); to.On != q.Fairness.On || !maps.Equal(to.Weights, q.Fairness.Weights) {
		return api.ProblemConflict.New("a file of the configuration has set whether queue %q is fair: change it "+
			"there, and reload it", name)
	}
	return nil
}
