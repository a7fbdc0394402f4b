package lmstfy_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"millrace/internal/dialect"
	"millrace/internal/dialect/dialecttest"
	"millrace/internal/dialect/lmstfy"
	"millrace/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// TestTranscripts plays every file in testdata against the real engine, in a bubble. Clients called admin speak to the
// admin API.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	dialecttest.Transcripts[lmstfy.Options]{
		Serve: func(s *dialecttest.Server, o lmstfy.Options) *testkit.Listener {
			o.Engine = s.Engine
			return s.Serve(lmstfy.New(o), 8<<20)
		},
		Set: setOption,
		HTTP: func(s *dialecttest.Server) *testkit.HTTP {
			seen := map[string]bool{}
			return &testkit.HTTP{
				ID: `1?[0-7][0-9A-HJKMNP-TV-Z]{25}`,
				Admin: func() (*testkit.Conn, error) {
					d, ok := s.Last().(*lmstfy.Dialect)
					if !ok {
						return nil, errors.New("it is not served")
					}
					return s.Handle(d.AdminHandler()).Dial()
				},
				Check: func(r *http.Response) error { return common(r, seen) },
			}
		},
	}.Run(t)
}

// common checks what all answers of the public API have in common; seen are the ids of requests.
func common(resp *http.Response, seen map[string]bool) error {
	id := resp.Header.Get("X-Request-ID")
	if _, ok := dialect.ParseULID(id); !ok || seen[id] {
		return fmt.Errorf("request id %q", id)
	}
	seen[id] = true
	content, length := resp.Header.Get("Content-Type"), resp.Header.Get("Content-Length")
	if resp.StatusCode == http.StatusNoContent {
		if content != "" || length != "" {
			return fmt.Errorf("no content of type %q and length %q", content, length)
		}
		return nil
	}
	if content != "application/json; charset=utf-8" || length == "" {
		return fmt.Errorf("content of type %q and length %q", content, length)
	}
	return nil
}

func setOption(o *lmstfy.Options, key, value string) (known bool, err error) {
	switch key {
	case "auth":
		o.Auth = true
	case "pools":
		o.Pools = strings.Split(value, ",")
	case "account":
		user, password, _ := strings.Cut(value, ":")
		o.Accounts = map[string]string{user: password}
	case "defaults":
		_, err = fmt.Sscanf(value, "%d,%d,%d,%d,%d", &o.Defaults.TTL, &o.Defaults.Delay, &o.Defaults.Tries,
			&o.Defaults.TTR, &o.Defaults.Timeout)
	default:
		return false, nil
	}
	return true, err
}
