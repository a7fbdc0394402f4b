package web

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"millrace/internal/api"
	"millrace/internal/auth"
	"millrace/internal/job"
)

// addresses are all pages of a site that has a job in each state, by the pattern of their routes.
func (s *site) addresses(ids map[string]job.ID) map[string][]string {
	s.t.Helper()
	batch := s.do(&job.NewBatch{Namespace: "ns", Text: "nightly", OpenFor: time.Hour})[0].Batch
	bulk := s.post("/jobs/act", url.Values{"scope": {"all"}, "action": {"bury"}, "queue": {"none"}, "confirm": {"yes"}})
	s.do(&job.SetSchedules{Entries: []job.Schedule{
		{
			Namespace: "ns", Name: "nightly", When: "@daily", Zone: "Asia/Tokyo",
			Job: job.Spec{Queue: "q", Type: "Report"},
		},
		{Namespace: "ns", Name: "off", When: "@hourly", Paused: true, Job: job.Spec{Queue: "q"}},
	}})
	s.do(&job.RunSchedule{Namespace: "ns", Name: "nightly"})
	jobs := []string{}
	for _, id := range ids {
		jobs = append(jobs, fmt.Sprintf("/job?namespace=ns&id=%d", id),
			fmt.Sprintf("/job?namespace=ns&queue=q&id=%d&as=hex&result_as=text", id))
	}
	return map[string][]string{
		"/{$}":      {"/", "/?period=hour", "/?period=day", "/?period=month"},
		"/queues":   {"/queues", "/queues?namespace=ns", "/queues?name=nowhere"},
		"/queue":    {"/queue?namespace=ns&queue=q"},
		"/failures": {"/failures", "/failures?namespace=ns&queue=q", "/failures?queue=none"},
		"/jobs": {
			"/jobs", "/jobs?state=ready&state=dead", "/jobs?error=broke", "/jobs?body=ann&type=Mail", "/jobs?ref=key-q",
			"/jobs?queue=none",
			"/jobs?after=2020-01-02T03:04&before=2120-01-02T03:04:05&time=since",
		},
		"/scheduled": {"/scheduled"}, "/retries": {"/retries"}, "/dead": {"/dead", "/dead?queue=none"},
		"/running": {"/running"},
		"/job":     jobs, "/bulk": {"/bulk"}, "/bulk/{id}": {bulk.Header().Get("Location")},
		"/workers": {"/workers"}, "/worker": {
			"/worker?holder=" + s.holder("q", ids["running"]),
			"/worker?holder=%3Cb%3E",
		}, "/connections": {"/connections"},
		"/batches": {"/batches", "/batches?namespace=ns"},
		"/cron":    {"/cron"}, "/cron/entry": {
			"/cron/entry?namespace=ns&name=nightly",
			"/cron/entry?namespace=ns&name=off",
		},
		"/batch": {fmt.Sprintf("/batch?namespace=ns&id=%d", batch)}, "/storage": {"/storage"},
		"/activity": {"/activity"}, "/help": {"/help"}, "/types": {"/types", "/types?period=hour"},
		"/type": {"/type?type=Mail", "/type?type=%3Cb%3E&period=day"},
		"/push": {
			"/push", "/push?namespace=ns&queue=q",
			fmt.Sprintf("/push?namespace=ns&queue=q&id=%d", ids["dead"]),
		},
		"/cluster": {"/cluster"}, "/tokens": {"/tokens", "/tokens?namespace=ns&pool=fast"},
		"/settings": {"/settings", "/settings?find=password"},
	}
}

// holder tells who has a job, as pages name it.
func (s *site) holder(queue string, id job.ID) string {
	s.t.Helper()
	d, err := s.service.Job("ns", queue, id)
	if err != nil || d.Lease == nil {
		s.t.Fatalf("job %d: %+v, %v", id, d.Lease, err)
	}
	return d.Lease.Holder
}

// notPages are answers that are no HTML.
var notPages = []string{"/live", "/strip", "/history", "/job/body"}

var (
	scriptPattern = regexp.MustCompile(`(?s)<script([^>]*)>(.*?)</script>`)
	tagPattern    = regexp.MustCompile(`<[a-zA-Z][^>]*>`)
	quotedPattern = regexp.MustCompile(`"[^"]*"|'[^']*'`)
	inlinePattern = regexp.MustCompile(`(?i)<style|\sstyle=|\son[a-z]+=|<b>|<img src=x`)
	linkPattern   = regexp.MustCompile(`(?:href|src|action|hx-get|data-history)="([^"]*)"`)
	idPattern     = regexp.MustCompile(`\sid="([^"]*)"`)
)

// checkPage asserts what every page owes: the policy, nothing inline, links below the prefix.
func checkPage(t *testing.T, target, prefix string, a answer) {
	t.Helper()
	if got := a.Header().Get("Content-Security-Policy"); !strings.Contains(got, "default-src 'none'") ||
		strings.Contains(got, "unsafe") {
		t.Errorf("%s: policy %q", target, got)
	}
	if a.Header().Get("X-Content-Type-Options") != "nosniff" || a.Header().Get("Cache-Control") != "no-store" ||
		a.Header().Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("%s: headers %v", target, a.Header())
	}
	for _, m := range scriptPattern.FindAllStringSubmatch(a.text, -1) {
		if !strings.Contains(m[1], "src=") || m[2] != "" {
			t.Errorf("%s: inline script %q", target, m[0])
		}
	}
	for _, tag := range tagPattern.FindAllString(a.text, -1) {
		if m := inlinePattern.FindString(quotedPattern.ReplaceAllString(tag, `""`)); m != "" {
			t.Errorf("%s: inline %q in %s", target, m, tag)
		}
	}
	for _, m := range linkPattern.FindAllStringSubmatch(a.text, -1) {
		if to := html.UnescapeString(m[1]); !strings.HasPrefix(to, prefix+"/") && !strings.HasPrefix(to, "#") {
			t.Errorf("%s: link %q does not begin with %q", target, to, prefix)
		}
	}
	seen := map[string]bool{}
	for _, m := range idPattern.FindAllStringSubmatch(a.text, -1) {
		if seen[m[1]] {
			t.Errorf("%s: id %q twice", target, m[1])
		}
		seen[m[1]] = true
	}
	if strings.Count(a.text, "<h1") != 1 || !strings.Contains(a.text, `<html lang="en">`) ||
		!strings.Contains(a.text, `href="#main"`) || strings.Contains(a.text, "ZgotmplZ") {
		t.Errorf("%s: %s", target, a.text)
	}
}

func TestEveryPage(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"", "/tools/millrace"} {
		s := newSite(t, auth.LoginOptions{})
		ids := s.allStates("q")
		pages := s.addresses(ids)
		for _, route := range notPages {
			pages[route] = nil
		}
		if prefix != "" {
			s.headers["X-Forwarded-Prefix"] = prefix + "/"
		}
		for route := range new(handler).readers() {
			targets, ok := pages[route]
			if !ok {
				t.Errorf("no test visits %s", route)
			}
			for _, target := range targets {
				checkPage(t, target, prefix, s.page(target))
				if prefix != "" { // a proxy may leave the prefix on
					checkPage(t, target, prefix, s.page(prefix+target))
				}
			}
		}
		checkPage(t, "nowhere", prefix, s.get("/nowhere"))
	}
}

func TestForeignPrefixIsIgnored(t *testing.T) {
	t.Parallel()
	s := newSite(t, auth.LoginOptions{})
	for _, prefix := range []string{"//evil.example", "/a\"b", "javascript:x", "/a/../b"} {
		s.headers["X-Forwarded-Prefix"] = prefix
		checkPage(t, prefix, "", s.page("/queues"))
	}
}

// TestPagesSay looks for what matters on each page.
func TestPagesSay(t *testing.T) {
	t.Parallel()
	s := newSite(t, auth.LoginOptions{})
	ids := s.allStates("q")
	s.do(&job.Pause{Namespace: "ns", Queue: "q"})
	tests := []struct {
		target string
		want   []string
	}{
		{"/queues", []string{
			`<span class="badge">paused</span>`, `name="action" value="resume"`,
			`state=running">1</a>`,
		}},
		{"/queue?namespace=ns&queue=q", []string{
			`<dt>pushed</dt><dd class="n">9</dd>`, "door3", "until",
			"Bring dead jobs back",
		}},
		{"/jobs?state=dead", []string{
			fmt.Sprintf(`>%d</a>`, ids["dead"]), "Boom: It broke",
			`<span class="state dead">dead</span>`, "all 1 that match",
		}},
		{"/jobs?ref=key-q", []string{fmt.Sprintf(`>%d</a>`, ids["ready"]), `{&#34;to&#34;:&#34;ann&#34;}`}},
		{"/jobs?body=ann", []string{fmt.Sprintf(`>%d</a>`, ids["ready"])}},
		{"/jobs?error=BROKE&state=failed", []string{fmt.Sprintf(`>%d</a>`, ids["failed"])}},
		{"/jobs?queue=none", []string{"No job matches"}},
		{"/jobs?before=2001-01-01T00:00", []string{"No job matches", `value="2001-01-01T00:00:00"`}},
		{"/running", []string{"worker-1", "59 min", "door2"}},
		{"/scheduled", []string{">in 59 min"}},
		{"/retries", []string{"Boom: It broke", "1 failed"}},
		{
			fmt.Sprintf("/job?namespace=ns&id=%d", ids["ready"]),
			[]string{"&#34;to&#34;: &#34;ann&#34;", "through door3", "key-q", "wait for this job"},
		},
		{
			fmt.Sprintf("/job?namespace=ns&id=%d", ids["dead"]),
			[]string{"a.rb:1\nb.rb:2", "Without attempts left</dt><dd>dead"},
		},
		{
			fmt.Sprintf("/job?namespace=ns&id=%d", ids["buried"]),
			[]string{`aria-label="Body">0` + "\n1\n-1</pre>", "<strong>decoded</strong>"},
		},
		{fmt.Sprintf("/job?namespace=ns&id=%d&as=hex", ids["buried"]), []string{"00000000  00 01 ff"}},
		{
			fmt.Sprintf("/job?namespace=ns&id=%d", ids["done"]),
			[]string{"&#34;answer&#34;: 42", "pushed without a body"},
		},
		{fmt.Sprintf("/job?namespace=ns&id=%d", ids["running"]), []string{"held by worker-1", "Its lease ends"}},
		{fmt.Sprintf("/job?namespace=ns&id=%d", ids["blocked"]), []string{fmt.Sprintf(`>%d</a>`, ids["ready"])}},
		{
			fmt.Sprintf("/job?namespace=ns&id=%d", ids["retrying"]),
			[]string{"n<sup>4</sup> × 1 h + 1 s + a random part", ">Due<"},
		},
		{"/workers", []string{"host:42", "5.0 MiB", "blue"}},
		{"/cluster", []string{
			"a leads, in term 3", "Node b cannot be reached",
			"Node b has other settings than node a: <code>faktory.dead_max</code>", "connection &lt;b&gt;refused",
			"Have another node lead",
		}},
		{"/connections", []string{"127.0.0.1:1", `<td class="n">7</td>`}},
		{"/settings?find=operators", []string{"web.password", "***"}},
		{"/storage", []string{"somewhere", "3.0 GiB"}},
		{"/", []string{"pushed per second", `data-count="running">1<`}},
	}
	s.sampled(func(sample *api.Sample) bool { return sample.Counts["running"] == 1 })
	for _, test := range tests {
		a := s.page(test.target)
		for _, want := range test.want {
			if !strings.Contains(a.text, want) {
				t.Errorf("%s lacks %q:\n%s", test.target, want, a.text)
			}
		}
	}
}

// TestHostileContent shows jobs whose every text is an attack.
func TestHostileContent(t *testing.T) {
	t.Parallel()
	const evil = `</pre></script><script>alert(1)</script><img src=x onerror="alert(2)">'"` + "`"
	s := newSite(t, auth.LoginOptions{})
	bodies := [][]byte{
		[]byte(evil), []byte(`{"a":"` + strings.ReplaceAll(evil, `"`, `\"`) + `"}`),
		{0xff, '<', 's', 'c', 'r', 'i', 'p', 't', '>'},
		[]byte("\u202e<b>"), []byte("[[[[1]]]]"),
	}
	var ids []job.ID
	for i, body := range bodies {
		ids = append(ids, s.push(job.Spec{
			Namespace: evil, Queue: evil, Key: evil + fmt.Sprint(i), Type: evil, Group: evil, Body: body,
			BodyKind: job.BodyBytes,
			Policy:   job.Policy{MaxFails: 2, Backoff: job.Backoff{Unit: time.Hour}}, Lock: fmt.Sprint(evil, i),
			LockFor: time.Hour,
		}))
		s.do(&job.Fail{
			Ref: job.ByID(evil, evil, ids[i]), Need: job.NeedAny,
			Failure: job.Failure{Type: evil, Message: evil, Backtrace: []string{evil}},
		})
	}
	s.workers.workers[0].ID, s.workers.workers[0].Hostname = evil, evil
	name := url.QueryEscape(evil)
	targets := []string{
		"/", "/queues", "/queues?namespace=" + name + "&name=" + name, "/queue?namespace=" + name + "&queue=" + name,
		"/jobs", "/retries", "/workers",
		"/jobs?ref=" + name, "/jobs?error=" + name + "&body=" + name + "&type=" + name, "/batches?namespace=" + name,
		"/settings?find=" + name,
		"/login?to=" + name,
	}
	for _, id := range ids {
		for _, as := range []string{"", "json", "text", "hex", evil} {
			targets = append(targets, fmt.Sprintf("/job?namespace=%s&id=%d&as=%s&result_as=%s", name, id,
				url.QueryEscape(as), url.QueryEscape(as)))
		}
	}
	for _, target := range targets {
		a := s.get(target)
		if a.Code == http.StatusSeeOther { // the login form, when nobody needs to log in
			continue
		}
		if a.Code != http.StatusOK {
			t.Fatalf("%s: %d", target, a.Code)
		}
		checkPage(t, target, "", a)
	}
	a := s.page(fmt.Sprintf("/job/body?namespace=%s&id=%d", name, ids[0]))
	if a.text != evil || a.Header().Get("Content-Type") != "application/octet-stream" ||
		!strings.HasPrefix(a.Header().Get("Content-Disposition"), "attachment") {
		t.Errorf("%v %q", a.Header(), a.text)
	}
	confirm := s.post("/queues/act", url.Values{
		"namespace": {evil}, "queue": {evil}, "action": {"remove"},
		"back": {"//evil.example/"},
	})
	checkPage(t, "confirm", "", confirm)
	if done := s.submit(confirm.form(t, "confirm")); done.Code != http.StatusOK ||
		!strings.Contains(done.text, "Removed queue &lt;/pre&gt;") {
		t.Errorf("%d %s", done.Code, done.text)
	}
}

// TestRefusals asks for what is not there, with cursors of other lists, and with nonsense.
func TestRefusals(t *testing.T) {
	t.Parallel()
	s := newSite(t, auth.LoginOptions{})
	for i := range 60 {
		s.push(job.Spec{Queue: fmt.Sprintf("q%02d", i)})
	}
	next := regexp.MustCompile(`href="/queues\?cursor=([^"]*)"`).FindStringSubmatch(s.page("/queues").text)
	if next == nil {
		t.Fatal("no next page")
	}
	if a := s.page("/queues?cursor=" + next[1]); !strings.Contains(a.text, ">q59</a>") ||
		strings.Contains(a.text, ">q00</a>") || !strings.Contains(a.text, ">First page</a>") {
		t.Error(a.text)
	}
	tests := []struct {
		target string
		code   int
		says   string
	}{
		{"/nowhere", 404, "There is no such page"},
		{"/job?namespace=ns&id=999", 404, "job 999 is not in namespace ns"},
		{"/job?namespace=ns&id=abc", 404, "Ids of jobs are numbers"},
		{"/job?namespace=ns&id=-1", 404, "Ids of jobs are numbers"},
		{"/job/body?namespace=ns&id=x", 404, "Ids of jobs are numbers"},
		{"/job/body?namespace=ns&id=999", 404, "job 999 is not in namespace"},
		{"/queue?namespace=ns&queue=none", 404, "there is no queue"},
		{"/batch?namespace=ns&id=5", 404, "there is no batch 5"},
		{"/batch?namespace=ns&id=x", 404, "There is no such batch"},
		{"/bulk/none", 404, "there is no bulk action"},
		{"/jobs?cursor=" + next[1], 400, "another list"},
		{"/jobs?cursor=!!!", 400, "not one of ours"},
		{"/queues?namespace=ns&cursor=" + next[1], 400, "another filter"},
		{"/workers?cursor=" + next[1], 400, "another list"},
		{"/batches?namespace=ns&cursor=x", 400, "not one of ours"},
		{"/bulk?cursor=x", 400, "not one of ours"},
		{"/jobs?state=asleep", 400, "is none of scheduled"},
		{"/jobs?batch=x", 400, "is no number"},
		{"/jobs?after=yesterday", 400, "is no time"},
		{"/jobs?time=never", 400, "is none of created"},
		{"/jobs?body=" + strings.Repeat("a", 2000), 400, "longer than"},
		{"/history?resolution=1y", 400, "is none of 10s"},
		{"/static/../web.go", 404, ""},
		{"/static/nothing.js", 404, ""},
	}
	for _, test := range tests {
		a := s.get(test.target)
		if a.Code == http.StatusTemporaryRedirect || a.Code == http.StatusMovedPermanently {
			a = s.get(a.Header().Get("Location"))
		}
		if a.Code != test.code || !strings.Contains(html.UnescapeString(a.text), test.says) {
			t.Errorf("%s: %d, want %d %q:\n%s", test.target, a.Code, test.code, test.says, a.text)
		}
	}
}

// TestFirstPageIsSmall adds up what a browser loads for the first page.
func TestFirstPageIsSmall(t *testing.T) {
	t.Parallel()
	s := newSite(t, auth.LoginOptions{})
	s.headers["Accept-Encoding"] = "br, gzip"
	var loaded int
	load := func(target string) string {
		a := s.page(target)
		loaded += a.Body.Len()
		if a.Header().Get("Content-Encoding") != "gzip" {
			t.Errorf("%s is not compressed", target)
			return a.text
		}
		z, err := gzip.NewReader(strings.NewReader(a.text))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	text := load("/")
	assets := regexp.MustCompile(`(?:src|href)="(/static/[^"]*)"`).FindAllStringSubmatch(text, -1)
	if len(assets) < 6 {
		t.Fatalf("assets %v", assets)
	}
	seen := map[string]bool{}
	for _, m := range assets {
		if seen[m[1]] {
			continue
		}
		seen[m[1]] = true
		load(m[1])
		if got := s.page(m[1]).Header().Get("Cache-Control"); !strings.Contains(got, "immutable") {
			t.Errorf("%s: %s", m[1], got)
		}
	}
	if loaded > 100_000 {
		t.Errorf("the first page is %d bytes", loaded)
	}
	s.headers["Accept-Encoding"] = "gzip;q=0"
	if a := s.page("/"); a.Header().Get("Content-Encoding") != "" || !strings.HasPrefix(a.text, "<!doctype html>") {
		t.Error("compressed for a client that does not want it")
	}
}

// TestVendored checks that the files of others are those that their README names.
func TestVendored(t *testing.T) {
	t.Parallel()
	readme, err := staticFiles.ReadFile("static/vendor/README.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := staticFiles.ReadDir("static/vendor")
	if err != nil {
		t.Fatal(err)
	}
	pinned := 0
	for _, f := range files {
		if f.Name() == "README.md" || strings.HasSuffix(f.Name(), ".LICENSE") {
			continue
		}
		text, err := staticFiles.ReadFile("static/vendor/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(text)
		row := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(f.Name()) + ` \|.*\| ` +
			hex.EncodeToString(sum[:]) + ` \|$`)
		if !row.Match(readme) {
			t.Errorf("%s has the hash %x, which the README does not name", f.Name(), sum)
		}
		pinned++
	}
	if pinned != 3 {
		t.Errorf("%d files", pinned)
	}
}

// The page of a queue shows what is first, what fails and who works on it; what destroys something is folded away.
func TestQueueDetails(t *testing.T) {
	t.Parallel()
	s := newSite(t, auth.LoginOptions{})
	ids := s.allStates("q")
	text := s.page("/queue?namespace=ns&queue=q").text
	for _, part := range []string{
		`data-history="/history?namespace=ns&amp;period=hour&amp;queue=q"`,
		fmt.Sprintf(`>%d</a></th><td><span class="state ready">`, ids["ready"]),
		"It broke", "Retry all 2", "Who works on it", "1 running", `<details class="danger">`, `&amp;period=day"`,
	} {
		if !strings.Contains(text, part) {
			t.Errorf("the page lacks %q:\n%s", part, text)
		}
	}
	var series struct {
		Seconds float64 `json:"seconds"`
		At      []int64 `json:"at"`
	}
	for target, seconds := range map[string]float64{
		"/history?namespace=ns&queue=q":              60,
		"/history?namespace=ns&queue=q&period=month": 21600, "/history": 10,
	} {
		if err := json.Unmarshal([]byte(s.page(target).text), &series); err != nil || series.Seconds != seconds {
			t.Errorf("%s: %+v, %v", target, series, err)
		}
	}
	if a := s.get("/history?namespace=ns&queue=q&period=year"); a.Code != http.StatusBadRequest {
		t.Errorf("a year: %d", a.Code)
	}
}

// A table of queues shows namespaces if there are several, and no column that is empty.
func TestQueueColumns(t *testing.T) {
	t.Parallel()
	s := newSite(t, auth.LoginOptions{})
	s.push(job.Spec{Queue: "q"})
	has := func(part string, want bool) {
		t.Helper()
		if text := s.page("/queues").text; strings.Contains(text, part) != want {
			t.Errorf("the page has %q: %t\n%s", part, !want, text)
		}
	}
	has(`<span class="sub">ns</span>`, false)
	has(`name="namespace" value="" autocomplete`, false)
	has(`<th scope="col" class="n">buried</th>`, false)
	has(`<rect class="ready" x="0" y="0" width="120" height="8"/>`, true)
	s.push(job.Spec{Namespace: "other", Queue: "q"})
	id := s.push(job.Spec{Queue: "p"})
	s.do(&job.Bury{Ref: job.ByID("ns", "p", id), Need: job.NeedAny})
	has(`<span class="sub">ns</span>`, true)
	has(`name="namespace" value="" autocomplete`, true)
	has(`<th scope="col" class="n">buried</th>`, true)
}
