package beanstalkd_test

import (
	"testing"

	"millrace/internal/dialect/beanstalkd"
	"millrace/internal/dialect/dialecttest"
	"millrace/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// TestTranscripts plays every file in testdata.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	dialecttest.Transcripts[beanstalkd.Options]{
		EOL: "\r\n",
		Serve: func(s *dialecttest.Server, o beanstalkd.Options) *testkit.Listener {
			o.Engine = s.Engine
			return s.Serve(beanstalkd.New(o), 1<<20)
		},
	}.Run(t)
}
