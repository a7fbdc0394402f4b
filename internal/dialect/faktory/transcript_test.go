package faktory_test

import (
	"fmt"
	"strings"
	"testing"

	"millrace/internal/dialect/dialecttest"
	"millrace/internal/dialect/faktory"
	"millrace/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// TestTranscripts plays every file in testdata. They also know
//
//	signal STATE [WID]    tells workers to be quiet or to terminate
func TestTranscripts(t *testing.T) {
	t.Parallel()
	dialecttest.Transcripts[faktory.Options]{
		EOL: "\r\n",
		Serve: func(s *dialecttest.Server, o faktory.Options) *testkit.Listener {
			o.Engine = s.Engine
			return s.Serve(faktory.New(o), 1<<20)
		},
		Verbs: func(_ *testing.T, s *dialecttest.Server) map[string]func(string) error {
			return map[string]func(string) error{"signal": func(args string) error { return signal(s, args) }}
		},
	}.Run(t)
}

func signal(s *dialecttest.Server, args string) error {
	state, wid, _ := strings.Cut(args, " ")
	to := map[string]faktory.WorkerState{"quiet": faktory.Quiet, "terminate": faktory.Terminate}[state]
	if d, ok := s.Last().(*faktory.Dialect); !ok || d.Signal(wid, to) == 0 {
		return fmt.Errorf("no worker %q", wid)
	}
	return nil
}

// TestCommonCases runs what every protocol must pass.
func TestCommonCases(t *testing.T) {
	t.Parallel()
	dialecttest.Run(t, dialecttest.Faktory())
}
