package server

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// A standby keeps one connection to the leader for one of a client. It takes a seat, and ends with the term: whoever
// leads then, the next request is served, and none that may have been done is answered.
func TestNodeKeepsLink(t *testing.T) {
	t.Parallel()
	all := make([]*running, 3)
	for i, flags := range nodes(t, len(all), nil) {
		all[i] = start(t, load(t, flags), Options{})
	}
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}
	defer client.CloseIdleConnections()
	pause := func(r *running) error {
		resp, err := client.Post("http://"+r.addr(1)+"/api/v1/namespaces/default/queues/q/pause", "application/json",
			strings.NewReader("{}"))
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil {
			return err
		}
		if resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusServiceUnavailable &&
			resp.Header.Get("Retry-After") != "" {
			return nil
		}
		return fmt.Errorf("answer %s", resp.Status)
	}
	push(t, all[0].addr(0), "q", "n", "")
	for range 2 { // terms
		until(t, "requests share a connection", func() bool {
			leads := leader(t, all)
			r := all[(leads+1)%len(all)]
			n := r.server.node
			for range 5 {
				if err := pause(r); err != nil {
					return false
				}
			}
			return n.passed.Load() == 1 && n.seats.open.Load() >= 2
		})
		leads := all[leader(t, all)].server.node
		if l := leads.term.Load(); l != nil {
			l.term.End(errStopped)
		}
		until(t, "no connection of the term is left, and no seat is taken by one", func() bool {
			return !slices.ContainsFunc(all, func(r *running) bool {
				var open int64
				for _, g := range r.server.gates {
					count, _, _, _ := g.counts()
					open += count
				}
				return r.server.node.passed.Load() > 0 || r.server.seats.open.Load() != open
			})
		})
	}
}
