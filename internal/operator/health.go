package operator

import "millrace/internal/api"

// Health tells whether the server can take work, and what was looked at.
func (s *Service) Health() (ready bool, checks []api.Check) {
	if s.engine == nil {
		return s.clusterHealth()
	}
	draining := api.Check{Name: "accepting", OK: !s.draining.Load()}
	if !draining.OK {
		draining.About = "the server is stopping"
	}
	store := api.Check{Name: "store", OK: s.engine.Err() == nil}
	if !store.OK {
		store.About = "the store has failed, nothing is acknowledged"
	}
	space := api.Check{Name: "space", OK: !s.engine.Stats().NoSpace}
	if !space.OK {
		space.About = "free disk space is under store.free_floor, pushes are refused"
	}
	checks = []api.Check{draining, store, space}
	ready = true
	for _, c := range checks {
		ready = ready && c.OK
	}
	return ready, checks
}

// clusterHealth is that of a node that does not lead.
func (s *Service) clusterHealth() (ready bool, checks []api.Check) {
	c := api.Check{Name: "leader", OK: true}
	if err := s.opts.Cluster.Ready(); err != nil {
		c.OK, c.About = false, err.Error()
	}
	return c.OK, []api.Check{c}
}
