package workq_test

import (
	"testing"

	"millrace/internal/dialect/dialecttest"
	"millrace/internal/dialect/workq"
	"millrace/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// TestTranscripts plays every file in testdata.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	dialecttest.Transcripts[workq.Options]{
		EOL: "\r\n",
		Serve: func(s *dialecttest.Server, o workq.Options) *testkit.Listener {
			o.Engine = s.Engine
			return s.Serve(workq.New(o), 1<<20)
		},
	}.Run(t)
}
