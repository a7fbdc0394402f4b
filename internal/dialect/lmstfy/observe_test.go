package lmstfy_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/dialect/dialecttest"
	"millrace/internal/dialect/lmstfy"
	"millrace/internal/dialect/lmstfy/lmstfytest"
	"millrace/internal/testkit"
)

// ask sends a request straight to a handler.
func ask(t *testing.T, h http.Handler, method, target, body string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body)))
	return w
}

// TestMetrics counts under the names of the original.
func TestMetrics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := dialecttest.Start(t)
		defer s.Stop(t)
		d := lmstfy.New(lmstfy.Options{Options: dialect.Options{Engine: s.Engine}, Auth: true, Pools: []string{"cold"}})
		l, admin := s.Serve(d, 0), d.AdminHandler()
		const token = "12345678901234567890"
		for _, namespace := range []string{"ns", "idle"} {
			if w := ask(t, admin, "POST", "/token/"+namespace+"?description=d&token="+token, ""); w.Code != 201 {
				t.Fatalf("token: %d", w.Code)
			}
		}
		c := lmstfytest.New(dial(t, l), "ns", token)
		id, err := c.Publish("q", "tries=1", []byte("x"))
		must(t, err)
		_, err = c.Publish("q", "delay=60", nil)
		must(t, err)
		_, err = c.PublishBulk("dead", "1", "2", "3")
		must(t, err)
		testkit.Advance(t, 100*time.Millisecond)
		_, err = c.Consume("q", time.Minute, 0)
		must(t, err)
		must(t, c.Delete("q", id))
		_, err = c.ConsumeMany("dead", 9)
		must(t, err)
		n, err := c.Respawn("dead", "")
		if err != nil || n != 1 {
			t.Fatalf("respawned %d, %v", n, err)
		}
		if code, _, _ := c.Do("PUT", "/api/ns/q?tries=x", nil); code != 400 {
			t.Errorf("code %d", code)
		}
		if w := ask(t, admin, "POST", "/token/ns/"+token+"/limit",
			`{"read":1,"write":1,"interval":100}`); w.Code != 201 {
			t.Fatalf("limit: %d", w.Code)
		}
		for range 3 {
			_, _ = c.Publish("q", "", nil) // the last two are refused
		}
		// Strangers make no series.
		stranger := lmstfytest.New(dial(t, l), "made-up", "")
		_, err = stranger.Size("q")
		must(t, err)
		if _, err := stranger.Publish("q", "", nil); err == nil {
			t.Error("a stranger may publish")
		}

		got := ask(t, admin, "GET", "/metrics", "").Body.String()
		for _, line := range []string{
			`infra_lmstfy_redis_publish_jobs{pool="default"} 6`,
			`infra_lmstfy_redis_pool_add_jobs{pool="default"} 6`,
			`infra_lmstfy_redis_consume_multi_jobs{pool="default"} 4`,
			`infra_lmstfy_redis_queue_pop_jobs{pool="default"} 4`,
			`infra_lmstfy_redis_pool_get_jobs{pool="default"} 4`,
			`infra_lmstfy_redis_pool_delete_jobs{pool="default"} 1`,
			`infra_lmstfy_redis_timer_add_jobs{pool="default"} 5`,
			`infra_lmstfy_redis_timer_due_jobs{pool="default"} 3`,
			`infra_lmstfy_redis_timer_full_batches{pool="default"} 0`,
			`infra_lmstfy_redis_queue_direct_push_jobs{pool="default"} 5`,
			`infra_lmstfy_redis_deadletter_respawn_jobs{pool="default"} 1`,
			`infra_lmstfy_redis_publish_jobs{pool="cold"} 0`,
			`infra_lmstfy_redis_publish_queue_jobs{namespace="ns",pool="default",queue="dead"} 3`,
			`infra_lmstfy_redis_consume_queue_jobs{namespace="ns",pool="default",queue="q"} 1`,
			`infra_lmstfy_redis_job_elapsed_ms_bucket{namespace="ns",pool="default",queue="q",le="52.5"} 0`,
			`infra_lmstfy_redis_job_elapsed_ms_bucket{namespace="ns",pool="default",queue="q",le="183.75"} 1`,
			`infra_lmstfy_redis_job_elapsed_ms_sum{namespace="ns",pool="default",queue="q"} 100`,
			`infra_lmstfy_redis_job_ack_elapsed_ms_count{namespace="ns",pool="default",queue="q"} 1`,
			`infra_lmstfy_redis_timer_sizes{pool="default"} 1`,
			`infra_lmstfy_redis_queue_sizes{namespace="ns",pool="default",queue="q"} 1`,
			`infra_lmstfy_redis_deadletter_sizes{namespace="ns",pool="default",queue="dead"} 2`,
			`infra_lmstfy_http_http_codes{api="/api/:namespace/:queue",code="201",method="PUT",namespace="ns",pool="default"} 3`,
			`infra_lmstfy_http_http_codes{api="/api/:namespace/:queue",code="400",method="PUT",namespace="ns",pool="default"} 1`,
			`infra_lmstfy_http_http_codes{api="/api/:namespace/:queue",code="429",method="PUT",namespace="ns",pool="default"} 2`,
			`infra_lmstfy_http_http_codes{api="/api/:namespace/:queue/job/:job_id",code="204",method="DELETE",namespace="ns",pool="default"} 1`,
			`infra_lmstfy_http_latency_milliseconds_count{api="/api/:namespace/:queue",method="PUT",namespace="ns",pool="default"} 3`,
			`infra_lmstfy_http_latency_milliseconds_bucket{api="/api/:namespace/:queue",method="PUT",namespace="ns",pool="default",le="22888.18359375"} 3`,
			`infra_lmstfy_http_rate_limit{action="produce",namespace="ns",pool="default",token="1234***"} 2`,
		} {
			if !strings.Contains(got, line+"\n") {
				name, _, _ := strings.Cut(line, "{")
				t.Errorf("no line %s, but\n%s", line,
					strings.Join(regexp.MustCompile(`(?m)^`+name+`\{.*$`).FindAllString(got, -1), "\n"))
			}
		}
		for _, absent := range []string{"made-up", `namespace="idle"`, token} {
			if strings.Contains(got, absent) {
				t.Errorf("%s is in the metrics", absent)
			}
		}

		// The sizes of queues are read again after a while only.
		ready := func(want string) {
			t.Helper()
			line := `infra_lmstfy_redis_queue_sizes{namespace="ns",pool="default",queue="q"} ` + want + "\n"
			if got := ask(t, admin, "GET", "/metrics", "").Body.String(); !strings.Contains(got, line) {
				t.Errorf("the size is not %s", want)
			}
		}
		if _, err := c.Publish("q/job/unknown", "", nil); err != nil {
			t.Errorf("republish: %v", err)
		}
		ready("1")
		testkit.Advance(t, 5*time.Second)
		ready("2")
	})
}

// TestAccessLog logs requests without their tokens, and can be turned off.
func TestAccessLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := dialecttest.Start(t)
		defer s.Stop(t)
		var log bytes.Buffer
		d := lmstfy.New(lmstfy.Options{
			Options: dialect.Options{Engine: s.Engine, Logger: slog.New(slog.NewJSONHandler(&log, nil))},
			Pools:   []string{"cold"}, AccessLog: true,
		})
		l, admin := s.Serve(d, 0), d.AdminHandler()
		c := lmstfytest.New(dial(t, l), "ns", "cold:secret")
		calls := []struct {
			path, level, pool, query string
			code                     int
		}{
			{"/api/ns/q/size?token=secret&a=b", "INFO", "cold", "token=***&a=b", 200},
			{"/api/ns/q?%74oken=secret", "INFO", "cold", "%74oken=***", 404},
			{"/api/ns/q?count=0&%zz=secret", "WARN", "cold", "count=0&%zz=***", 400},
			{"/nowhere", "INFO", "", "", 404},
		}
		for _, call := range calls {
			log.Reset()
			code, _, err := c.Do("GET", call.path, nil)
			if err != nil || code != call.code {
				t.Fatalf("%s: %d, %v", call.path, code, err)
			}
			synctest.Wait()
			var line map[string]any
			if err := json.Unmarshal(log.Bytes(), &line); err != nil {
				t.Fatalf("%q: %v", log.String(), err)
			}
			path, _, _ := strings.Cut(call.path, "?")
			got := fmt.Sprint(line["level"], line["pool"], line["path"], line["query"], line["method"],
				line["code"], line["msg"])
			if want := fmt.Sprint(call.level, call.pool, path, call.query, "GET", call.code, "request"); got != want {
				t.Errorf("logged %s, want %s", got, want)
			}
			if line["req_id"] == "" || line["ip"] == "" || line["latency"] == nil ||
				strings.Contains(log.String(), "secret") {
				t.Errorf("logged %s", log.String())
			}
		}
		log.Reset()
		ask(t, admin, "GET", "/token/ns/secret/limit?token=secret", "")
		if got := log.String(); !strings.Contains(got, `"path":"/token/ns/***/limit"`) ||
			strings.Contains(got, "secret") {
			t.Errorf("logged %s", got)
		}
		ask(t, admin, "POST", "/accesslog?status=disable", "")
		log.Reset()
		if _, err := c.Size("q"); err != nil || log.Len() > 0 {
			t.Errorf("%v, logged %s", err, log.String())
		}
	})
}

// TestProfiler serves the profiles of the original and no more.
func TestProfiler(t *testing.T) {
	t.Parallel()
	s := dialecttest.Start(t)
	defer s.Stop(t)
	admin := lmstfy.New(lmstfy.Options{Options: dialect.Options{Engine: s.Engine}}).AdminHandler()
	for path, code := range map[string]int{
		"/debug/pprof/": 200, "/debug/pprof/heap?debug=1": 200, "/debug/pprof/goroutine": 200,
		"/debug/pprof/cmdline": 404, "/debug/pprof": 404, "/debug/": 404,
	} {
		if w := ask(t, admin, "GET", path, ""); w.Code != code {
			t.Errorf("%s: %d, want %d", path, w.Code, code)
		}
	}
}
