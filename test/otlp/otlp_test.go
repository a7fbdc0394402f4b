package otlp

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/yamlprovider"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"
	// The server is run as a process, which the go tool cannot see: without this import it would call a test result of
	// an older server current.
	_ "millrace/internal/cli"
	"millrace/test/harness"
)

var binary string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "millrace-otlp-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir) //nolint:errcheck // nothing to be done about it
	if binary, err = harness.Build(context.Background(), dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// seen is the end of the collector's pipeline.
type seen struct {
	component.StartFunc
	component.ShutdownFunc
	spans chan ptrace.Span
}

func (seen) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

func (s seen) ConsumeTraces(_ context.Context, td ptrace.Traces) error {
	for _, r := range td.ResourceSpans().All() {
		if name, ok := r.Resource().Attributes().Get("service.name"); !ok || name.Str() != "jobs" {
			return fmt.Errorf("the service is %v", r.Resource().Attributes().AsRaw())
		}
		for _, scope := range r.ScopeSpans().All() {
			for _, span := range scope.Spans().All() {
				s.spans <- span
			}
		}
	}
	return nil
}

const collectorConfig = `yaml:
receivers:
  otlp:
    protocols:
      http:
        endpoint: %s
exporters:
  seen:
service:
  telemetry:
    metrics:
      level: none
    logs:
      level: error
  pipelines:
    traces:
      receivers: [otlp]
      exporters: [seen]
`

// startCollector runs a collector until the test ends, and returns its address and what comes out of it.
func startCollector(t *testing.T) (addr string, spans chan ptrace.Span) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr = l.Addr().String()
	if err := l.Close(); err != nil { // nobody else is likely to get it meanwhile
		t.Fatal(err)
	}
	spans = make(chan ptrace.Span, 100)
	kind := component.MustNewType("seen")
	exporters := exporter.NewFactory(kind, func() component.Config { return &struct{}{} },
		exporter.WithTraces(func(context.Context, exporter.Settings, component.Config) (exporter.Traces, error) {
			return seen{spans: spans}, nil
		}, component.StabilityLevelStable))
	c, err := otelcol.NewCollector(otelcol.CollectorSettings{
		BuildInfo: component.NewDefaultBuildInfo(), DisableGracefulShutdown: true,
		Factories: func() (otelcol.Factories, error) {
			otlp := otlpreceiver.NewFactory()
			return otelcol.Factories{
				Receivers: map[component.Type]receiver.Factory{otlp.Type(): otlp},
				Exporters: map[component.Type]exporter.Factory{kind: exporters},
				Telemetry: otelconftelemetry.NewFactory(),
			}, nil
		},
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			URIs:              []string{fmt.Sprintf(collectorConfig, addr)},
			ProviderFactories: []confmap.ProviderFactory{yamlprovider.NewFactory()},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Run(context.Background()) }()
	t.Cleanup(func() {
		c.Shutdown()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	for c.GetState() != otelcol.StateRunning {
		select {
		case err := <-ended:
			t.Fatalf("the collector ended: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	return addr, spans
}

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// A job that is pushed with a trace through one protocol brings it to a worker of another, and its waiting and running
// are spans of that trace.
func TestSpans(t *testing.T) {
	t.Parallel()
	collector, spans := startCollector(t)
	s, err := harness.Start(t.Context(), harness.Options{
		Bin: binary, Listener: "faktory", Also: []string{"web"},
		Args: []string{
			"--data-dir", filepath.Join(t.TempDir(), "data"), "--faktory-addr", "127.0.0.1:0",
			"--web-addr", "127.0.0.1:0",
			"--masenko-addr", "off", "--tarantool-addr", "off", "--lmstfy-addr", "off", "--lmstfy-admin-addr", "off",
			"--otlp-endpoint", "http://" + collector, "--otlp-service-name", "jobs",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Kill()
	push(t, s.Addrs["web"])
	fetched := work(t, s.Addrs["faktory"])
	if !strings.Contains(fetched, `"custom":{"traceparent":"`+traceparent+`"}`) {
		t.Errorf("the worker gets %s", fetched)
	}
	wait, ran := next(t, spans), next(t, spans)
	if wait.Name() == "q run" {
		wait, ran = ran, wait
	}
	for _, span := range []ptrace.Span{wait, ran} {
		if id := span.TraceID().String(); id != "0af7651916cd43dd8448eb211c80319c" {
			t.Errorf("%s is of trace %s", span.Name(), id)
		}
		if typ, ok := span.Attributes().Get("millrace.job.type"); !ok || typ.Str() != "T" {
			t.Errorf("%s has attributes %v", span.Name(), span.Attributes().AsRaw())
		}
	}
	if wait.Name() != "q wait" || wait.ParentSpanID().String() != "b7ad6b7169203331" ||
		wait.EndTimestamp() < wait.StartTimestamp() {
		t.Errorf("waiting is %s below %s from %s to %s", wait.Name(), wait.ParentSpanID(), wait.StartTimestamp(),
			wait.EndTimestamp())
	}
	if ran.Name() != "q run" || ran.ParentSpanID() != wait.SpanID() || ran.StartTimestamp() != wait.EndTimestamp() {
		t.Errorf("running is %s below %s from %s", ran.Name(), ran.ParentSpanID(), ran.StartTimestamp())
	}
	if ran.Kind() != ptrace.SpanKindConsumer || ran.Links().Len() != 1 ||
		ran.Links().At(0).SpanID().String() != "b7ad6b7169203331" {
		t.Errorf("running is a %s with %d links", ran.Kind(), ran.Links().Len())
	}
	if ran.Status().Code() != ptrace.StatusCodeError {
		t.Errorf("a job that failed has status %s", ran.Status().Code())
	}
}

func next(t *testing.T, spans chan ptrace.Span) ptrace.Span {
	t.Helper()
	select {
	case s := <-spans:
		return s
	case <-time.After(2 * time.Minute):
		t.Fatal("no span has come")
		panic("unreachable")
	}
}

// push pushes a job through the operator API.
func push(t *testing.T, addr string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
		"http://"+addr+"/api/v1/namespaces/default/queues/q/jobs",
		strings.NewReader(`{"jobs":[{"type":"T"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("traceparent", traceparent)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close() //nolint:errcheck // only read from
	if answer.StatusCode/100 != 2 {
		t.Fatalf("push: %s", answer.Status)
	}
}

// work fetches a job as a Faktory worker, fails it, and returns what it was given.
func work(t *testing.T, addr string) string {
	t.Helper()
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // nothing is left to be sent
	in := bufio.NewReader(c)
	line := func() string {
		text, err := in.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimRight(text, "\r\n")
	}
	ask := func(text string) string {
		if _, err := fmt.Fprintf(c, "%s\r\n", text); err != nil {
			t.Fatal(err)
		}
		return line()
	}
	line() // its greeting
	ask(`HELLO {"v":2,"wid":"w1","hostname":"h","pid":1,"labels":[]}`)
	if got := ask("FETCH q"); !strings.HasPrefix(got, "$") {
		t.Fatalf("fetched %s", got)
	}
	text := line()
	var j struct {
		JID string `json:"jid"`
	}
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		t.Fatal(err)
	}
	if got := ask(fmt.Sprintf(`FAIL {"jid":%q,"errtype":"E","message":"m"}`, j.JID)); got != "+OK" {
		t.Fatalf("fail: %s", got)
	}
	return text
}
