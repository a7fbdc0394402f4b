package tarantool_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/dialect/dialecttest"
	"millrace/internal/dialect/tarantool"
	"millrace/internal/dialect/tarantool/tarantooltest"
	"millrace/internal/job"
	"millrace/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// TestTranscripts plays the files iproto_*.txt and tube_*.txt in testdata, of whose lines
// tarantooltest.Interpret makes packets of. They also know
//
//	foreign QUEUE KIND "BODY"     another protocol pushes a job: bytes, json, none
//	remove QUEUE                  an operator removes a queue
func TestTranscripts(t *testing.T) {
	t.Parallel()
	dialecttest.Transcripts[tarantool.Options]{
		Files: []string{"iproto_*.txt", "tube_*.txt"},
		Serve: func(s *dialecttest.Server, o tarantool.Options) *testkit.Listener {
			o.Engine = s.Engine
			return s.Serve(tarantool.New(o), 4<<20)
		},
		Dial: dialLines,
		Set:  setOption,
		Verbs: func(t *testing.T, s *dialecttest.Server) map[string]func(string) error {
			t.Helper()
			return map[string]func(string) error{
				"foreign": func(args string) error { return pushForeign(t.Context(), s, args) },
				"remove": func(queue string) error {
					return do(t.Context(), s, &job.Remove{Namespace: "default", Queue: queue})
				},
				"fair": func(queue string) error {
					cmd := &job.SetFair{Namespace: "default", Queue: queue, Fairness: job.Fairness{On: true}}
					return do(t.Context(), s, cmd)
				},
				"group-limit": func(queue string) error {
					cmd := &job.SetLimits{Namespace: "default", Queue: queue, Limits: job.Limits{GroupConcurrency: 2}}
					return do(t.Context(), s, cmd)
				},
			}
		},
	}.Run(t)
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

func setOption(o *tarantool.Options, key, text string) (known bool, err error) {
	switch key {
	case "user":
		name, password, _ := strings.Cut(text, ":")
		if o.Users == nil {
			o.Users = make(map[string]string)
		}
		o.Users[name] = password
	case "login":
		o.RequireLogin, err = strconv.ParseBool(text)
	case "ttr":
		o.SessionTTR, err = time.ParseDuration(text)
	default:
		return false, nil
	}
	return true, err
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
