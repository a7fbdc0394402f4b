package server

import (
	"context"
	"os"

	"millrace/internal/dialect"
	"millrace/internal/otlp"
)

// startTraces starts what sends spans, if there is a collector, and returns what ends it. It lives as long as the
// process.
func (s *server) startTraces() (stop func()) {
	c := &s.cfg.OTLP
	if !c.Enabled() {
		return func() {}
	}
	instance, _ := os.Hostname() // without one it is empty
	if s.cfg.Cluster.Enabled() {
		instance = s.cfg.Cluster.Node
	}
	s.traces = otlp.New(otlp.Options{
		URL: c.URL(), Headers: c.Headers, Service: c.Service, Instance: instance, Version: s.opts.Version,
		Logger: s.log, DoorName: dialect.DoorName,
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.traces.Run(ctx)
	}()
	return func() {
		cancel()
		<-ended
	}
}
