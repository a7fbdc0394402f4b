package tarantool_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/dialect/dialecttest"
	"millrace/internal/dialect/tarantool"
	"millrace/internal/dialect/tarantool/tarantooltest"
	"millrace/internal/job"
	"millrace/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// TestTranscripts plays the files iproto_*.txt and tube_*.txt in testdata against the
// real engine. They are transcripts as testkit knows them, whose lines
// tarantooltest.Interpret makes packets of. Besides they know
//
//	server KEY=VALUE...           serves with other options from now on
//	restart                       stops the server and opens it again on the same store
//	foreign QUEUE KIND "BODY"     another protocol pushes a job: bytes, json, none
//	remove QUEUE                  an operator removes a queue
func TestTranscripts(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{"testdata/iproto_*.txt", "testdata/tube_*.txt"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) < 5 {
			t.Fatalf("transcripts: %v, %v", files, err)
		}
		for _, file := range files {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { playTranscript(t, file) })
			})
		}
	}
}

func playTranscript(t *testing.T, file string) {
	t.Helper()
	s := dialecttest.Start(t)
	defer func() { s.Stop(t) }()
	var l *testkit.Listener
	var opts tarantool.Options
	serve := func() {
		opts.Engine = s.Engine
		l = s.Serve(tarantool.New(opts), 4<<20)
	}
	serve()
	tr := &testkit.Transcript{
		Path: file,
		Dial: func() (*testkit.Conn, error) { return dialLines(l) },
		Verbs: map[string]func(string) error{
			"server": func(args string) error {
				opts = tarantool.Options{}
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
			"foreign": func(args string) error { return pushForeign(t.Context(), s, args) },
			"remove": func(queue string) error {
				return do(t.Context(), s, &job.Remove{Namespace: "default", Queue: queue})
			},
		},
	}
	tr.Run(t)
}

// dialLines connects a client that writes lines.
func dialLines(l *testkit.Listener) (*testkit.Conn, error) {
	wire, err := l.Dial()
	if err != nil {
		return nil, err
	}
	client, lines := testkit.Pipe(8 << 20)
	tarantooltest.Interpret(lines, wire)
	return client, nil
}

func setOption(o *tarantool.Options, arg string) (err error) {
	key, text, _ := strings.Cut(arg, "=")
	switch key {
	case "user":
		name, password, _ := strings.Cut(text, ":")
		if o.Users == nil {
			o.Users = make(map[string]string)
		}
		o.Users[name] = password
	case "login":
		o.RequireLogin, err = strconv.ParseBool(text)
	case "max_packet":
		o.MaxPacket, err = strconv.Atoi(text)
	case "max_waiting":
		o.MaxWaiting, err = strconv.Atoi(text)
	case "max_in_flight":
		o.MaxInFlight, err = strconv.Atoi(text)
	case "ttr":
		o.SessionTTR, err = time.ParseDuration(text)
	default:
		err = fmt.Errorf("no option %s", key)
	}
	return err
}

func do(ctx context.Context, s *dialecttest.Server, cmd job.Command) error {
	if err := s.Engine.NewCaller().Do(ctx, cmd)[0].Err; err != nil {
		return err
	}
	return nil
}

func pushForeign(ctx context.Context, s *dialecttest.Server, args string) error {
	queue, rest, _ := strings.Cut(args, " ")
	kind, quoted, _ := strings.Cut(rest, " ")
	spec := job.Spec{Namespace: "default", Queue: queue, Origin: dialect.DoorMasenko}
	switch kind {
	case "bytes":
		spec.BodyKind = job.BodyBytes
	case "json":
		spec.BodyKind = job.BodyJSON
	case "none":
	default:
		return fmt.Errorf("no kind of body %q", kind)
	}
	if quoted != "" {
		body, err := strconv.Unquote(quoted)
		if err != nil {
			return err
		}
		spec.Body = []byte(body)
	}
	return do(ctx, s, &job.Push{Spec: spec})
}
