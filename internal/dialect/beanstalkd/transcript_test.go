package beanstalkd_test

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"millrace/internal/dialect/beanstalkd"
	"millrace/internal/dialect/dialecttest"
	"millrace/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// TestTranscripts plays every file in testdata against the real engine. Besides
// the lines of testkit.Transcript it knows
//
//	server KEY=VALUE...   serves with other options from now on
//	restart               stops the server and opens it again on the same store
func TestTranscripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 10 {
		t.Fatalf("transcripts: %v, %v", files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { playTranscript(t, file) })
		})
	}
}

func playTranscript(t *testing.T, file string) {
	t.Helper()
	s := dialecttest.Start(t)
	var l *testkit.Listener
	var opts beanstalkd.Options
	serve := func() {
		opts.Engine = s.Engine
		l = s.Serve(beanstalkd.New(opts), 1<<20)
	}
	serve()
	tr := &testkit.Transcript{
		Path: file,
		EOL:  "\r\n",
		Dial: func() (*testkit.Conn, error) { return l.Dial() },
		Verbs: map[string]func(string) error{
			"server": func(args string) error {
				opts = beanstalkd.Options{}
				for arg := range strings.FieldsSeq(args) {
					if err := setOption(&opts, arg); err != nil {
						return err
					}
				}
				serve()
				return nil
			},
			"restart": func(string) error {
				s.Restart(t)
				serve()
				return nil
			},
		},
	}
	defer s.Stop(t)
	tr.Run(t)
}

func setOption(o *beanstalkd.Options, arg string) error {
	key, value, _ := strings.Cut(arg, "=")
	n, err := strconv.Atoi(value)
	if err != nil {
		return err
	}
	switch key {
	case "maxconns":
		o.MaxConns = n
	case "maxjob":
		o.MaxJob = n
	default:
		return fmt.Errorf("unknown option %q", key)
	}
	return nil
}
