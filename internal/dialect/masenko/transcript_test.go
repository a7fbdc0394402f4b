package masenko_test

import (
	"testing"

	"millrace/internal/dialect/dialecttest"
	"millrace/internal/dialect/masenko"
	"millrace/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// TestTranscripts plays every file in testdata.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	dialecttest.Transcripts[masenko.Options]{
		Serve: func(s *dialecttest.Server, o masenko.Options) *testkit.Listener {
			o.Engine = s.Engine
			return s.Serve(masenko.New(o), 1<<20)
		},
	}.Run(t)
}

// TestCommonCases runs what every protocol must pass.
func TestCommonCases(t *testing.T) {
	t.Parallel()
	dialecttest.Run(t, dialecttest.Masenko())
}
