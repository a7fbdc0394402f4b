package metrics

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/store/memstore"
	"millrace/internal/testkit"
	"millrace/internal/timing"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func open(t *testing.T) *engine.Engine {
	t.Helper()
	return openWith(t, engine.Options{})
}

func openWith(t *testing.T, o engine.Options) *engine.Engine {
	t.Helper()
	o.Store, o.Durability = memstore.New(), engine.DurabilityNone
	e, err := engine.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func do(t *testing.T, e *engine.Engine, cmds ...job.Command) {
	t.Helper()
	for _, r := range e.NewCaller().Do(t.Context(), cmds...) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
}

// scrape returns the text of the metrics, which must be well-formed.
func scrape(t *testing.T, o Options) string {
	t.Helper()
	w := httptest.NewRecorder()
	Handler(o).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	line := regexp.MustCompile(`^(# (HELP|TYPE) .*|[a-z_]+(\{([a-z_]+="([^"\\]|\\.)*",?)*\})? (NaN|[-+]?[0-9.e+-]+|\+Inf))$`)
	for text := range strings.SplitSeq(strings.TrimSuffix(w.Body.String(), "\n"), "\n") {
		if !line.MatchString(text) {
			t.Errorf("malformed: %q", text)
		}
	}
	return w.Body.String()
}

// series returns the lines of some metrics, sorted.
func series(text, pattern string) []string {
	lines := regexp.MustCompile(`(?m)^`+pattern+`[ {].*$`).FindAllString(text, -1)
	slices.Sort(lines)
	return lines
}

func push(queue string) *job.Push {
	return &job.Push{Spec: job.Spec{Namespace: "ns", Queue: queue, Origin: 2}}
}

func doorName(d job.Door) string { return fmt.Sprint("door", d) }

func TestMetrics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := open(t)
		do(t, e, push("a"), push("a"), push("b"), &job.Pause{Namespace: "ns", Queue: "b"},
			&job.Fetch{Namespace: "ns", Queues: []string{"a"}, Max: 1, DefaultLease: time.Hour, Door: 4})
		do(t, e, &job.SetSchedules{Entries: []job.Schedule{{
			Namespace: "ns", Name: "c", When: "@every 1m",
			Job: job.Spec{Queue: "c"},
		}}})
		testkit.Advance(t, 90*time.Second)
		var took timing.Histogram
		took.ObserveN(time.Second, 11)
		text := scrape(t, Options{
			Engine: e, Version: "1.2.3", Durability: "fsync", Recovery: 1500 * time.Millisecond,
			Connections: func() []Connections {
				return []Connections{{
					"one", 2, 3,
					map[string]int64{"limit": 4, "tls": 1},
				}}
			},
			Commands: func() []Command {
				return []Command{
					{"one", "PUSH", 5, 6, took},
					{Protocol: "one", Command: "FETCH"},
				}
			},
			FreeBytes: func() (uint64, error) { return 12345, nil },
			Ready:     func() bool { return true },
			DoorName:  doorName,
		})
		for _, want := range []string{
			`millrace_jobs_pushed_total{namespace="ns",protocol="door2",queue="a"} 2`,
			`millrace_jobs_pushed_total{namespace="ns",protocol="door4",queue="a"} 0`,
			`millrace_jobs_fetched_total{namespace="ns",protocol="door4",queue="a"} 1`,
			`millrace_jobs_acked_total{namespace="ns",protocol="door4",queue="a"} 0`,
			`millrace_jobs_failed_total{namespace="ns",protocol="door2",queue="b"} 0`,
			`millrace_jobs_retried_total{namespace="ns",protocol="door2",queue="b"} 0`,
			`millrace_jobs_cancelled_total{namespace="ns",protocol="door2",queue="b"} 0`,
			`millrace_jobs_dead_total{namespace="ns",protocol="internal",queue="b"} 0`,
			`millrace_jobs_expired_total{namespace="ns",protocol="internal",queue="b"} 0`,
			`millrace_queue_jobs{namespace="ns",queue="a",state="ready"} 1`,
			`millrace_queue_jobs{namespace="ns",queue="a",state="running"} 1`,
			`millrace_queue_jobs{namespace="ns",queue="b",state="dead"} 0`,
			`millrace_queue_oldest_ready_seconds{namespace="ns",queue="a"} 90`,
			`millrace_queue_paused{namespace="ns",queue="a"} 0`,
			`millrace_queue_paused{namespace="ns",queue="b"} 1`,
			`millrace_cron_fired_total{name="c",namespace="ns"} 1`,
			`millrace_cron_missed_total{name="c",namespace="ns"} 0`,
			`millrace_cron_skipped_total{name="c",namespace="ns"} 0`,
			`millrace_cron_age_seconds{name="c",namespace="ns"} 30`,
			`millrace_cron_late_seconds{name="c",namespace="ns"} 0`,
			`millrace_cron_paused{name="c",namespace="ns"} 0`,
			`millrace_queues 3`,
			`millrace_connections{protocol="one"} 2`,
			`millrace_connections_total{protocol="one"} 3`,
			`millrace_connections_rejected_total{protocol="one",reason="limit"} 4`,
			`millrace_connections_rejected_total{protocol="one",reason="tls"} 1`,
			`millrace_store_disk_free_bytes 12345`,
			`millrace_store_recovery_seconds 1.5`,
			`millrace_ready 1`,
			`millrace_job_wait_seconds_bucket{namespace="ns",protocol="door4",queue="a",type="",le="0.0009765625"} 1`,
			`millrace_job_wait_seconds_count{namespace="ns",protocol="door4",queue="a",type=""} 1`,
			`millrace_job_run_seconds_count{namespace="ns",protocol="door4",queue="a",type=""} 0`,
			`millrace_commands_total{command="PUSH",protocol="one",result="ok"} 5`,
			`millrace_commands_total{command="PUSH",protocol="one",result="error"} 6`,
			`millrace_commands_total{command="FETCH",protocol="one",result="ok"} 0`,
			`millrace_command_seconds_count{command="PUSH",protocol="one"} 11`,
			`millrace_command_seconds_sum{command="PUSH",protocol="one"} 11`,
			`millrace_engine_commands_total{protocol="internal",result="ok",verb="push"} 3`,
			`millrace_engine_commands_total{protocol="internal",result="refused",verb="fetch"} 0`,
			`millrace_store_corruptions_total 0`,
		} {
			if !strings.Contains(text, want+"\n") {
				t.Errorf("%s is missing", want)
			}
		}
		for _, name := range []string{
			`millrace_build_info`, `millrace_store_fsync_seconds_sum`, `millrace_store_fsync_seconds_count`,
			`millrace_store_bytes`,
			`millrace_store_write_stalls_total`, `millrace_store_commits_total`, `millrace_store_commit_seconds_bucket`,
			`millrace_store_commit_batch_jobs_bucket`, `millrace_store_fsync_seconds_bucket`,
			`millrace_command_seconds_bucket`,
			`millrace_engine_command_seconds_bucket`, `go_goroutines`,
			`process_cpu_seconds_total`,
		} {
			if len(series(text, name)) == 0 {
				t.Errorf("%s is missing", name)
			}
		}
		if !strings.Contains(text, `durability="fsync"`) || !strings.Contains(text, `version="1.2.3"`) {
			t.Error("what runs is not told")
		}
	})
}

// A node of a cluster tells about it, also if it does not lead and so has no engine.
func TestCluster(t *testing.T) {
	t.Parallel()
	var took timing.Histogram
	took.ObserveN(time.Second, 3)
	text := scrape(t, Options{Cluster: func() Cluster {
		return Cluster{
			HasLeader: true, Term: 4, Commit: 9, Applied: 8, LogBytes: 100, LogKeep: 50, Voids: 1,
			LeaderChanges: 2, Forwarded: 7,
			Nodes: []ClusterNode{
				{Name: "b", Reachable: true, Lag: 3, LagTime: 1.5, Skew: -0.25, Differ: 2},
				{Name: "c", Lag: 5},
			},
			Confirms: took, Sent: took, CatchUpReceived: 30, CatchUpSize: 60, CatchUpSent: 90,
		}
	}})
	for _, want := range []string{
		`is_leader 0`, `has_leader 1`, `term 4`, `commit_index 9`, `applied_index 8`, `log_bytes 100`,
		`log_keep_bytes 50`, `fenced_total 1`,
		`leader_changes_total 2`, `forwarded_connections 7`, `members{reachable="yes"} 2`, `members{reachable="no"} 1`,
		`node_reachable{node="b"} 1`, `node_reachable{node="c"} 0`, `lag_entries{node="c"} 5`,
		`lag_seconds{node="b"} 1.5`, `clock_skew_seconds{node="b"} -0.25`,
		`catchup_received_bytes 30`, `catchup_size_bytes 60`, `catchup_sent_bytes_total 90`,
		`settings_differ{node="b"} 2`, `settings_differ{node="c"} 0`,
		`confirm_seconds_count 3`, `confirm_seconds_bucket{le="0.5"} 0`, `confirm_seconds_bucket{le="1"} 3`,
		`snapshot_seconds_count{kind="cut"} 0`, `snapshot_seconds_sum{kind="sent"} 3`,
		`snapshot_seconds_count{kind="received"} 0`,
	} {
		if !strings.Contains(text, "\nmillrace_cluster_"+want+"\n") {
			t.Errorf("%s is missing", want)
		}
	}
}

// The queues made first keep their series, and the sums stay right.
func TestQueuesAreCapped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := openWith(t, engine.Options{TimedQueues: 3})
		for i := range 10 {
			do(t, e, push(fmt.Sprint("q", 9-i)))
			testkit.Advance(t, time.Second)
		}
		text := scrape(t, Options{Engine: e, QueuesMax: 3, DoorName: doorName})
		want := []string{
			`millrace_jobs_pushed_total{namespace="__other__",protocol="door2",queue="__other__"} 7`,
			`millrace_jobs_pushed_total{namespace="ns",protocol="door2",queue="q7"} 1`,
			`millrace_jobs_pushed_total{namespace="ns",protocol="door2",queue="q8"} 1`,
			`millrace_jobs_pushed_total{namespace="ns",protocol="door2",queue="q9"} 1`,
		}
		if got := series(text, "millrace_jobs_pushed_total"); !slices.Equal(got, want) {
			t.Errorf("%q", got)
		}
		want = []string{
			`millrace_queue_jobs{namespace="__other__",queue="__other__",state="ready"} 7`,
			`millrace_queue_jobs{namespace="ns",queue="q7",state="ready"} 1`,
			`millrace_queue_jobs{namespace="ns",queue="q8",state="ready"} 1`,
			`millrace_queue_jobs{namespace="ns",queue="q9",state="ready"} 1`,
		}
		got := slices.DeleteFunc(series(text, "millrace_queue_jobs"),
			func(line string) bool { return !strings.Contains(line, `"ready"`) })
		if !slices.Equal(got, want) {
			t.Errorf("%q", got)
		}
		if got := series(text, "millrace_queue_paused"); len(got) != 3 {
			t.Errorf("%q", got)
		}
	})
}

// Types of jobs have times of their own, up to a bound.
func TestTypes(t *testing.T) {
	t.Parallel()
	e := openWith(t, engine.Options{TimedTypes: 1})
	for _, typ := range []string{"mail", "", "late", "later"} {
		p := push("a")
		p.Spec.Type = typ
		do(t, e, p, &job.Fetch{Namespace: "ns", Queues: []string{"a"}, Max: 1, DefaultLease: time.Hour, Door: 4})
	}
	want := []string{
		`millrace_job_wait_seconds_count{namespace="ns",protocol="door4",queue="a",type=""} 1`,
		`millrace_job_wait_seconds_count{namespace="ns",protocol="door4",queue="a",type="__other__"} 2`,
		`millrace_job_wait_seconds_count{namespace="ns",protocol="door4",queue="a",type="mail"} 1`,
	}
	text := scrape(t, Options{Engine: e, DoorName: doorName})
	if got := series(text, "millrace_job_wait_seconds_count"); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// Names that clients choose break nothing.
func TestNamesOfQueues(t *testing.T) {
	t.Parallel()
	e := open(t)
	do(t, e, push("bad\xff"), push("line\nend\"quote"), push("ünï"),
		&job.Push{Spec: job.Spec{Namespace: Other, Queue: Other}}, push("last"))
	text := scrape(t, Options{Engine: e})
	for _, want := range []string{`queue="\"bad\\xff\""`, `queue="line\nend\"quote"`, `queue="ünï"`} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing", want)
		}
	}
	// One has taken the name that stands for all the others.
	if text := scrape(t, Options{Engine: e, QueuesMax: 4}); len(series(text, "millrace_queues")) != 1 {
		t.Error("there are no metrics any more")
	}
}

// Metrics that are incomplete say so.
func TestErrorsAreCounted(t *testing.T) {
	t.Parallel()
	h := Handler(Options{Names: func() (held, most, refused int64) { panic("a fault") }})
	for _, want := range []string{"0", "1"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
		if line := `promhttp_metric_handler_errors_total{cause="gathering"} ` + want +
			"\n"; !strings.Contains(w.Body.String(), line) {
			t.Errorf("%s is missing in\n%s", line, w.Body)
		}
	}
}

func TestStoppedEngine(t *testing.T) {
	t.Parallel()
	e := open(t)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if text := scrape(t, Options{Engine: e}); len(series(text, "millrace_queues")) != 0 ||
		len(series(text, "go_goroutines")) == 0 {
		t.Error("what is still known is not told")
	}
}

// Those who outlive a restart are counted, with how many may.
func TestKeptHolders(t *testing.T) {
	t.Parallel()
	e := open(t)
	do(t, e, &job.KeepHolder{KeptHolder: job.KeptHolder{Name: "a", Holder: e.NewHolder(), Grace: time.Hour}})
	want := []string{"millrace_engine_kept_holders 1", "millrace_engine_kept_holders_limit 100000"}
	if got := series(scrape(t, Options{Engine: e}), "millrace_engine_kept_holders(_limit)?"); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
