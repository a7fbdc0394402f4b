package operator

import (
	"context"

	"millrace/internal/api"
	"millrace/internal/job"
)

// fairnessOf returns how fair a queue is; nil if it is not.
func fairnessOf(f job.Fairness) *api.Fairness {
	if !f.On {
		return nil
	}
	return &api.Fairness{On: true, Weights: f.Weights}
}

// Fairness returns whether the groups of a queue take turns.
func (s *Service) Fairness(namespace, name string) (api.Fairness, error) {
	q, err := s.Queue(namespace, name)
	if err != nil || q.Fairness == nil {
		return api.Fairness{}, err
	}
	return *q.Fairness, nil
}

// SetFairness has the groups of a queue take turns, or not. A queue that is not there is made if they do.
func (s *Service) SetFairness(ctx context.Context, namespace, name string, f api.Fairness) (api.Queue, error) {
	if namespace == "" || name == "" {
		return api.Queue{}, api.Invalid("name a namespace and a queue")
	}
	fair := job.Fairness{On: f.On, Weights: f.Weights}
	if err := s.mayTurn(namespace, name, fair); err != nil {
		return api.Queue{}, err
	}
	if !f.On {
		if err := s.exists(namespace, name); err != nil {
			return api.Queue{}, err
		}
	}
	if _, err := s.do(ctx, &job.SetFair{Namespace: namespace, Queue: name, Fairness: fair}); err != nil {
		return api.Queue{}, err
	}
	return s.Queue(namespace, name)
}
