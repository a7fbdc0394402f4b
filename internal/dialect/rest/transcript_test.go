package rest_test

import (
	"testing"

	"millrace/internal/dialect/dialecttest"
	"millrace/internal/testkit"
)

// TestTranscripts plays every file in testdata against the real engine, mounted as in the server.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	dialecttest.Transcripts[dialecttest.Settings]{
		EOL: "\r\n",
		Serve: func(s *dialecttest.Server, o dialecttest.Settings) *testkit.Listener {
			o.Engine, o.MaxCommand = s.Engine, 1<<20
			return s.Serve(dialecttest.Rest().New(o), 0)
		},
	}.Run(t)
}
