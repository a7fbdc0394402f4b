package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"millrace/internal/api"
	"millrace/internal/dialect"
	"millrace/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// fakeSource has a number of jobs, one that is none, and a queue that is paused.
type fakeSource struct {
	jobs int
	err  error // of reading, at the end
}

func (s *fakeSource) Protocol() string                      { return "p" }
func (s *fakeSource) Name() string                          { return "p:here" }
func (s *fakeSource) Count(context.Context) (uint64, error) { return uint64(s.jobs), nil }
func (s *fakeSource) Close() error                          { return nil }

func (s *fakeSource) Read(_ context.Context, to Sink) error {
	if err := to.Take(&dialect.Arrival{ID: "paused q1", Queue: "q1", State: dialect.StatePaused}); err != nil {
		return err
	}
	for i := range s.jobs - 1 {
		if err := to.Take(&dialect.Arrival{
			ID: fmt.Sprint(i), Queue: fmt.Sprintf("q%d", i%2),
			State: "ready",
		}); err != nil {
			return err
		}
	}
	to.Leave(&dialect.Arrival{ID: "?", Queue: "q0", State: "dead"}, "it is no job")
	return s.err
}

// fakeServer takes what has not arrived before.
type fakeServer struct {
	order   []string
	arrived map[string]bool
	fail    func(request int) error
	asked   int
}

func (s *fakeServer) Migrate(_ context.Context, o api.MigrationOptions, lines []byte) (api.MigrationResult, error) {
	s.asked++
	if s.fail != nil {
		if err := s.fail(s.asked); err != nil {
			return api.MigrationResult{}, err
		}
	}
	if o.Source != "p:here" || o.Protocol != "p" {
		return api.MigrationResult{}, fmt.Errorf("%+v", o)
	}
	out := api.MigrationResult{Namespace: "ns"}
	for line := range strings.Lines(string(lines)) {
		var a dialect.Arrival
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			return out, err
		}
		n := len(out.Lines) + 1
		switch {
		case s.arrived[a.ID]:
			out.Lines += string(api.LineRepeated)
			continue
		case a.ID == "7":
			out.Lines += string(api.LineRefused)
			out.Refused = append(out.Refused, api.MigrationLine{Line: n, ID: a.ID, Problem: "seven"})
			continue
		case a.ID == "8":
			out.Partly = append(out.Partly, api.MigrationLine{Line: n, ID: a.ID, Problem: "its lock"})
		}
		out.Lines += string(api.LineArrived)
		s.order = append(s.order, a.ID)
		s.arrived[a.ID] = true
	}
	return out, nil
}

func (s *fakeServer) Queue(_ context.Context, namespace, name string) (api.Queue, error) {
	if namespace != "ns" || name != "q1" {
		return api.Queue{}, &api.Problem{Status: http.StatusNotFound}
	}
	return api.Queue{Counts: map[string]uint64{"ready": 5}, Paused: true}, nil
}

func (s *fakeServer) AddToken(_ context.Context, o api.TokenOptions) (api.NewToken, error) {
	switch {
	case o.Pool != "":
		return api.NewToken{}, &api.Problem{Status: http.StatusBadRequest, Detail: "no pool"}
	case s.arrived["token "+o.Token]:
		return api.NewToken{}, &api.Problem{Status: http.StatusConflict}
	}
	s.arrived["token "+o.Token] = true
	return api.NewToken{}, nil
}

// tokenSource has tokens, too.
type tokenSource struct{ fakeSource }

func (s *tokenSource) Tokens(context.Context) ([]api.TokenOptions, error) {
	return []api.TokenOptions{{Token: "a"}, {Token: "b"}, {Token: "c", Pool: "none"}}, nil
}

// Tokens are made unless they are there; one that is refused is told.
func TestRunTokens(t *testing.T) {
	t.Parallel()
	server := &fakeServer{arrived: map[string]bool{"token b": true}}
	r, err := Run(t.Context(), &tokenSource{fakeSource{jobs: 5}}, Options{Server: server})
	if err != nil || *r.Tokens != (TokenSum{Read: 3, Arrived: 1, Repeated: 1, Refused: 1}) || len(r.Problems) != 2 {
		t.Errorf("%v, %+v, %+v", err, r.Tokens, r.Problems)
	}
	server = &fakeServer{arrived: map[string]bool{}}
	r, err = Run(t.Context(), &tokenSource{fakeSource{jobs: 5}}, Options{Server: server, DryRun: true})
	if err != nil || *r.Tokens != (TokenSum{Read: 3}) || server.arrived["token a"] {
		t.Errorf("a dry run has made tokens: %v, %+v", err, r.Tokens)
	}
}

// Everything is sent once and in order, whatever is counted adds up, and what was left behind is told.
func TestRun(t *testing.T) {
	t.Parallel()
	const jobs = 2*unitLines + 30
	server := &fakeServer{arrived: map[string]bool{}}
	var problems []Problem
	var done, total uint64
	o := Options{
		Server: server, Problem: func(p Problem) { problems = append(problems, p) },
		Progress: func(d, n uint64) { done, total = d, n },
	}
	r, err := Run(t.Context(), &fakeSource{jobs: jobs}, o)
	if err != nil {
		t.Fatal(err)
	}
	for i, id := range server.order[1:8] {
		if id != fmt.Sprint(i) {
			t.Fatalf("job %s is number %d", id, i)
		}
	}
	sum := r.Sum()
	if sum.Read != jobs || sum.Arrived != jobs-2 || sum.Refused != 2 || r.Left != jobs ||
		total != jobs || done < jobs-1 {
		t.Errorf("%+v, left %d, done %d of %d", sum, r.Left, done, total)
	}
	if len(problems) != 3 || len(r.Problems) != 3 || !problems[1].Partly && !problems[2].Partly {
		t.Errorf("%+v", problems)
	}
	rows := map[string]Row{}
	for _, row := range r.Rows {
		rows[row.Queue+" "+row.State] = *row
	}
	if q := rows["q1 ready"]; q.Read != jobs/2-1 || q.Refused != 1 || q.Here != 5 {
		t.Errorf("%+v", q)
	}
	if q := rows["q1 paused"]; q.Here != 1 || len(rows) != 4 {
		t.Errorf("%+v", rows)
	}
	again, err := Run(t.Context(), &fakeSource{jobs: jobs}, o)
	if err != nil {
		t.Fatal(err)
	}
	if sum := again.Sum(); sum.Arrived != 0 || sum.Repeated != jobs-2 {
		t.Errorf("%+v", sum)
	}
}

// A request that fails for a while is sent again; any other failure ends the run, and so does one of the source.
func TestRunFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	server := &fakeServer{arrived: map[string]bool{}, fail: func(request int) error {
		if request == 2 || request == 3 {
			return broken
		}
		return nil
	}}
	tries := 0
	o := Options{Server: server, Passing: func(_ context.Context, err error, try int) bool {
		tries = try
		return errors.Is(err, broken)
	}}
	r, err := Run(t.Context(), &fakeSource{jobs: 2 * unitLines}, o)
	if err != nil || r.Sum().Read != 2*unitLines || tries != 2 {
		t.Errorf("%v, %+v, %d tries", err, r.Sum(), tries)
	}
	server.fail = func(int) error { return broken }
	o.Passing = nil
	if _, err := Run(t.Context(), &fakeSource{jobs: 5 * unitLines}, o); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	server.fail = nil
	if _, err := Run(t.Context(), &fakeSource{jobs: 5, err: broken}, o); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, &fakeSource{jobs: 5 * unitLines}, o); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ kind, address, want string }{
		{"none", "", "is none of"},
		{"faktory", "http://x", "write redis://"},
		{"faktory", "unix:///nowhere/redis.sock", "no answer from Redis"},
	} {
		if _, err := Open(t.Context(), c.kind, c.address); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v", c.kind, c.address, err)
		}
	}
}
