package lmstfy

import (
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"millrace/test/clients/kit"
)

// curl runs curl with the arguments and returns the status and the body. Every
// answer of the public interface has the id of its request.
func curl(t *testing.T, args ...string) (status, body string) {
	t.Helper()
	headers := filepath.Join(t.TempDir(), "headers")
	bin := kit.Tool(t, "curl", "curl")
	cmd := exec.CommandContext(t.Context(), bin, append([]string{
		"--silent", "--show-error", "--max-time", "30", "--dump-header", headers, "--write-out", "\n%{http_code}",
	}, args...)...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("curl %q: %v\n%s", args, err, stderr.String())
	}
	end := strings.LastIndexByte(string(out), '\n')
	body, status = string(out[:end]), string(out[end+1:])
	text, err := os.ReadFile(headers)
	if err != nil {
		t.Fatal(err)
	}
	if !requestID.Match(text) && !strings.Contains(strings.Join(args, " "), "/token/") {
		t.Errorf("curl %q: no X-Request-ID in\n%s", args, text)
	}
	if body != "" && !jsonType.Match(text) {
		t.Errorf("curl %q: not announced as JSON:\n%s", args, text)
	}
	return status, body
}

var (
	ulid      = regexp.MustCompile(`^[0-9A-HJKMNP-TV-Z]{26}$`)
	requestID = regexp.MustCompile(`(?mi)^x-request-id: [0-9A-HJKMNP-TV-Z]{26}\r?$`)
	jsonType  = regexp.MustCompile(`(?mi)^content-type: application/json; charset=utf-8\r?$`)
)

// TestCurl drives the interface as people without a client library do, with one
// connection per call.
func TestCurl(t *testing.T) {
	t.Parallel()
	s := kit.Start(t, []string{public, admin}, "--lmstfy-auth", "token")
	adminURL, api := "http://"+s.Addr(admin), "http://"+s.Addr(public)+"/api/"+namespace

	status, body := curl(t, "-X", "POST", "-d", "description=by hand", adminURL+"/token/"+namespace)
	var reply struct{ Token string }
	if err := json.Unmarshal([]byte(body), &reply); err != nil || status != "201" || len(reply.Token) != 26 {
		t.Fatalf("make a token: %s %s, %v", status, body, err)
	}
	token := reply.Token
	header := "X-Token: " + token

	job := func(queue, data, tries string) string {
		return `{"msg":"new job","namespace":"shop","queue":"` + queue + `","job_id":"<id>","data":"` + data +
			`","ttl":"<number>","elapsed_ms":"<number>","remain_tries":` + tries + `,"attributes":null}`
	}
	steps := []struct {
		name   string
		args   []string
		status string
		body   string
	}{
		{
			"the token shows",
			[]string{adminURL + "/token/" + namespace},
			"200",
			`{"tokens":{"` + token + `":"by hand"}}`,
		},
		{"no token", []string{"-X", "PUT", "-d", "x", api + "/q"}, "401", `{"error":"token not found"}`},
		{
			"a wrong token",
			[]string{"-X", "PUT", "-d", "x", "-H", "X-Token: wrong", api + "/q?token=" + token},
			"401",
			`{"error":"invalid token"}`,
		},
		{
			"another namespace",
			[]string{"-H", header, "http://" + s.Addr(public) + "/api/other/q"},
			"401",
			`{"error":"invalid token"}`,
		},
		{
			"publish",
			[]string{"-X", "PUT", "-d", "hello", "-H", header, api + "/q?delay=0&ttl=600&tries=2"},
			"201",
			`{"msg":"published","job_id":"<id>"}`,
		},
		{
			"the token in the query",
			[]string{"-X", "PUT", "-d", "world", api + "/q?token=" + token},
			"201",
			`{"msg":"published","job_id":"<id>"}`,
		},
		{"size without a token", []string{api + "/q/size"}, "200", `{"namespace":"shop","queue":"q","size":2}`},
		{
			"peek",
			[]string{"-H", header, api + "/q/peek"},
			"200",
			strings.Replace(job("q", "aGVsbG8=", "2"), `"msg":"new job",`, "", 1),
		},
		{"consume", []string{"-H", header, api + "/q?ttr=60"}, "200", job("q", "aGVsbG8=", "1")},
		{
			"consume an array",
			[]string{"-H", header, api + "/q?ttr=60&count=5&timeout=3"},
			"200",
			`[` + job("q", "d29ybGQ=", "0") + `]`,
		},
		{"consume nothing", []string{"-H", header, api + "/q,r"}, "404", `{"msg":"no job available"}`},
		{"peek nothing", []string{"-H", header, api + "/q/peek"}, "404", `{"error":"the queue is empty"}`},
		{
			"bulk",
			[]string{"-X", "PUT", "-d", `[ {"a": 1}, "b" ]`, "-H", header, api + "/q/bulk"},
			"201",
			`{"msg":"published","job_ids":["<id>","<id>"]}`,
		},
		{
			"bulk keeps the text",
			[]string{"-H", header, api + "/q?count=2"},
			"200",
			`[` + job("q", "eyJhIjogMX0=", "0") + `,` + job("q", "ImIi", "0") + `]`,
		},
		{
			"a body in a GET",
			[]string{"-X", "GET", "-d", "stale", "-H", header, api + "/q/deadletter"},
			"200",
			`{"namespace":"shop","queue":"q","deadletter_size":0,"deadletter_head":""}`,
		},
		{
			"respawn nothing",
			[]string{"-X", "PUT", "-H", header, api + "/q/deadletter?limit=5&ttl=60"},
			"200",
			`{"msg":"respawned","count":0}`,
		},
		{
			"dead letter size without a token",
			[]string{api + "/q/deadletter/size"},
			"200",
			`{"namespace":"shop","queue":"q","size":0}`,
		},
		{
			"delete from the dead letter",
			[]string{"-X", "DELETE", "-H", header, api + "/q/deadletter?limit=5"},
			"204",
			``,
		},
		{"ack of any id", []string{"-X", "DELETE", "-H", header, api + "/q/job/none"}, "204", ``},
		{"a bad number", []string{"-H", header, api + "/q?timeout=-1"}, "400", `{"error":"invalid timeout"}`},
		{"a bad count", []string{"-H", header, api + "/q?count=101"}, "400", `{"error":"invalid count"}`},
		{
			"no such route",
			[]string{"-X", "POST", "-d", "x", "-H", header, api + "/q"},
			"404",
			`{"error":"api not found"}`,
		},
		{
			"no such path",
			[]string{"-H", header, "http://" + s.Addr(public) + "/api/shop"},
			"404",
			`{"error":"api not found"}`,
		},
		{
			"publish for later",
			[]string{"-X", "PUT", "-d", "x", "-H", header, api + "/d?delay=600"},
			"201",
			`{"msg":"published","job_id":"<id>"}`,
		},
		{"destroy", []string{"-X", "DELETE", "-H", header, api + "/q"}, "204", ``},
		{"a token goes", []string{"-X", "DELETE", adminURL + "/token/" + namespace + "/" + token}, "204", ``},
		{"and is gone", []string{"-H", header, api + "/q"}, "401", `{"error":"invalid token"}`},
	}
	for _, step := range steps {
		t.Run(step.name, func(t *testing.T) {
			status, body := curl(t, step.args...)
			if status != step.status || !same(t, step.body, body) {
				t.Errorf("curl %q:\n%s %s\nwant\n%s %s", step.args, status, body, step.status, step.body)
			}
		})
	}
}

// same reports whether an answer is what is wanted, whatever the order of its
// members. Values that differ from run to run are wanted as <id> and <number>.
func same(t *testing.T, want, got string) bool {
	t.Helper()
	if want == "" || got == "" {
		return want == got
	}
	var w, g any
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatal(err)
	}
	return json.Unmarshal([]byte(got), &g) == nil && reflect.DeepEqual(w, mask(g, w))
}

// mask returns got with placeholders where want has one and the value fits it.
func mask(got, want any) any {
	switch g := got.(type) {
	case map[string]any:
		w, _ := want.(map[string]any)
		for name := range g {
			g[name] = mask(g[name], w[name])
		}
	case []any:
		w, _ := want.([]any)
		for i := range min(len(g), len(w)) {
			g[i] = mask(g[i], w[i])
		}
	case string:
		if want == "<id>" && ulid.MatchString(g) {
			return want
		}
	case float64:
		if want == "<number>" && g >= 0 && g == math.Trunc(g) {
			return want
		}
	}
	return got
}
