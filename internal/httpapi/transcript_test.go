package httpapi_test

import (
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"millrace/internal/api"
	"millrace/internal/auth"
	"millrace/internal/dialect/dialecttest"
	"millrace/internal/dialect/rest"
	"millrace/internal/httpapi"
	"millrace/internal/job"
	"millrace/internal/operator"
	"millrace/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// TestTranscripts plays every file in testdata against the real engine, in a bubble. A body is JSON unless the request
// says otherwise. Every answer of a call is held to the OpenAPI document. Besides the lines of testkit.HTTP the files
// know
//
//	server KIND   serves as one of servers does
func TestTranscripts(t *testing.T) {
	t.Parallel()
	dialecttest.EachFile(t, play, "*.txt")
}

// servers are what is served besides the API, by kind.
var servers = map[string]httpapi.HandlerOptions{
	"login": {
		Login:   auth.NewLogin(auth.LoginOptions{Password: "op", ReadPassword: "look", Token: "tok"}),
		Metrics: says("metrics"), Stats: says("stats"), Health: says("health"),
	},
	"ui": {UI: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "ui %s %q", r.URL.Path, httpapi.Prefix(r)) // nobody to tell
	})},
}

func says(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(text)) // nobody to tell
	})
}

func play(t *testing.T, file string) {
	t.Helper()
	s := dialecttest.Start(t)
	var service *operator.Service
	var l *testkit.Listener
	serve := func(o httpapi.HandlerOptions) (err error) {
		service, err = operator.New(operator.Options{
			Engine: s.Engine, Logger: slog.New(slog.DiscardHandler), SampleEvery: time.Hour,
			DoorName: func(d job.Door) string { return fmt.Sprint("door", d) },
		})
		o.Mounted = rest.New(rest.Options{Engine: s.Engine}).Handlers()
		l = s.Handle(documented(t, httpapi.NewHandler(service, o)))
		return err
	}
	if err := serve(httpapi.HandlerOptions{}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		service.Close()
		s.Stop(t)
	}()
	script := &testkit.Transcript{
		Path: file, Dial: func() (*testkit.Conn, error) { return l.Dial() },
		HTTP: &testkit.HTTP{ID: `[A-Za-z0-9_-]+`},
		Verbs: map[string]func(string) error{
			"server": func(kind string) error {
				service.Close()
				return serve(servers[kind])
			},
		},
	}
	script.Run(t)
}

// documented holds the answers of h to the OpenAPI document.
func documented(t *testing.T, h http.Handler) http.Handler {
	t.Helper()
	doc := testkit.LoadOpenAPI(t, httpapi.Document())
	routes := http.NewServeMux()
	for _, r := range api.Routes {
		routes.HandleFunc(r.Method+" "+r.Path, http.NotFound)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > 0 && r.Header.Get("Content-Type") == "" {
			r.Header.Set("Content-Type", "application/json")
		}
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, r)
		if _, pattern := routes.Handler(r); pattern != "" {
			method, path, _ := strings.Cut(pattern, " ")
			doc.Fits(t, doc.Operation(t, method, path), pattern, answer)
		}
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes()) // nobody to tell
	})
}
