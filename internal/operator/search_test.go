package operator

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/api"
	"millrace/internal/job"
)

// collect follows a list to its end, and checks that each page is bounded and progress grows.
func collect(t *testing.T, s *Service, f api.Filter, limit int) (ids []job.ID, pages int) {
	t.Helper()
	var cursor string
	var examined uint64
	for {
		p, err := s.Jobs(f, api.PageOf{Cursor: cursor, Limit: limit})
		if err != nil {
			t.Fatal(err)
		}
		pages++
		for _, j := range p.Jobs {
			ids = append(ids, j.ID)
		}
		if len(p.Jobs) > limit || p.Progress.Examined < examined || p.Progress.Complete != (p.Next == "") {
			t.Fatalf("page %d: %d jobs, progress %+v after %d, next %q", pages, len(p.Jobs),
				p.Progress, examined, p.Next)
		}
		examined = p.Progress.Examined
		if p.Next == "" {
			if f.Ref == "" && p.Progress.Examined != p.Progress.Total {
				t.Errorf("%+v: progress ends with %+v", f, p.Progress)
			}
			return ids, pages
		}
		cursor = p.Next
	}
}

func TestSearchFilters(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{FindID: func(text string) (job.ID, bool) { return 6, text == "six" }}, HandlerOptions{})
	a, b := f.allStates("a"), f.allStates("b")
	other := f.push(job.Spec{Namespace: "other", Queue: "a", Body: []byte("failed"), Batch: 0})
	batch := f.do(&job.NewBatch{Namespace: "ns", OpenFor: time.Hour})[0].Batch
	inBatch := f.push(job.Spec{Queue: "c", Batch: batch})
	now := time.Now()
	hour := now.Add(30 * time.Minute)
	all := slices.Concat(ids(a), ids(b), []job.ID{other, inBatch})
	tests := []struct {
		name   string
		filter api.Filter
		want   []job.ID
	}{
		{"everything", api.Filter{}, all},
		{"namespace", api.Filter{Namespace: "other"}, []job.ID{other}},
		{"unknown namespace", api.Filter{Namespace: "none"}, nil},
		{"queue", api.Filter{Namespace: "ns", Queue: "a"}, ids(a)},
		{"queue in any namespace", api.Filter{Queue: "a"}, append(ids(a), other)},
		{"unknown queue", api.Filter{Namespace: "ns", Queue: "none"}, nil},
		{"state", api.Filter{States: []string{"dead"}}, []job.ID{a["dead"], b["dead"]}},
		{"states", api.Filter{Queue: "b", States: []string{"running", "buried"}}, []job.ID{b["running"], b["buried"]}},
		{"type", api.Filter{Type: "Mail"}, []job.ID{a["ready"], b["ready"]}},
		{"type is whole", api.Filter{Type: "Mai"}, nil},
		{
			"error message",
			api.Filter{Error: "it BROKE"},
			[]job.ID{a["retrying"], a["failed"], a["dead"], b["retrying"], b["failed"], b["dead"]},
		},
		{"error type", api.Filter{Queue: "a", Error: "boom", States: []string{"dead"}}, []job.ID{a["dead"]}},
		{"body", api.Filter{Body: `"ann"`}, []job.ID{a["ready"], b["ready"]}},
		{"body is exact", api.Filter{Body: `"Ann"`}, nil},
		{"body in another namespace", api.Filter{Body: "failed"}, []job.ID{a["failed"], b["failed"], other}},
		{"id", api.Filter{Ref: fmt.Sprint(a["dead"])}, []job.ID{a["dead"]}},
		{"id of a protocol", api.Filter{Ref: "six"}, []job.ID{6}},
		{"id in another queue", api.Filter{Ref: fmt.Sprint(a["dead"]), Queue: "b"}, nil},
		{"id in another state", api.Filter{Ref: fmt.Sprint(a["dead"]), States: []string{"ready"}}, nil},
		{"key", api.Filter{Ref: "key-a"}, []job.ID{a["ready"]}},
		{"unknown key", api.Filter{Ref: "key-z"}, nil},
		{"batch", api.Filter{Batch: uint64(batch)}, []job.ID{inBatch}},
		{"created later", api.Filter{After: &hour}, nil},
		{"created before", api.Filter{Before: &hour, Namespace: "other"}, []job.ID{other}},
		{
			"due later",
			api.Filter{After: &hour, Time: "run_at"},
			[]job.ID{a["scheduled"], b["scheduled"], a["retrying"], b["retrying"]},
		},
		{"since", api.Filter{After: &hour, Time: "since"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, limit := range []int{1, 3, api.PageMax} {
				got, _ := collect(t, f.service, tt.filter, limit)
				slices.Sort(got)
				want := slices.Sorted(slices.Values(tt.want))
				if !slices.Equal(got, want) {
					t.Errorf("pages of %d: %v, want %v", limit, got, want)
				}
			}
			again, err := api.FilterOf(tt.filter.Query())
			if err != nil || fingerprint(again) != fingerprint(tt.filter) {
				t.Errorf("the filter becomes %+v, %v", again, err)
			}
		})
	}
}

func ids(m map[string]job.ID) []job.ID {
	var out []job.ID
	for _, id := range m {
		out = append(out, id)
	}
	return out
}

// TestSearchBounds has a search look for what is not there among many jobs and queues: no request reads
// more than it may, and the last one has seen everything.
func TestSearchBounds(t *testing.T) {
	t.Parallel()
	const jobs, queues, large = 12_000, 40, 8
	var seen []Reads
	f := newFixture(t, Options{Reads: func(r Reads) { seen = append(seen, r) }}, HandlerOptions{})
	var cmds []job.Command
	for i := range jobs {
		cmds = append(cmds, &job.Push{Spec: job.Spec{
			Namespace: "ns", Queue: fmt.Sprint("q", i%queues),
			Body: []byte("x"), BodyKind: job.BodyBytes,
		}})
	}
	f.do(cmds...)
	for range large {
		f.push(job.Spec{Queue: "large", Body: make([]byte, loadBytesMax/4)})
	}
	tests := []struct {
		name     string
		filter   api.Filter
		requests int // at least
	}{
		{"by body", api.Filter{Body: "nowhere"}, jobs / loadMax},
		{"by body in a namespace", api.Filter{Namespace: "ns", Body: "nowhere"}, jobs / loadMax},
		{"by batch", api.Filter{Batch: 1 << 40}, jobs / examineMax},
		{"large bodies", api.Filter{Namespace: "ns", Queue: "large", Body: "nowhere"}, 2},
		{"large bodies shown", api.Filter{Namespace: "ns", Queue: "large"}, 2},
	}
	for _, tt := range tests { // one after the other: they share what is counted
		seen = nil
		got, pages := collect(t, f.service, tt.filter, api.PageMax)
		if tt.filter.Body+fmt.Sprint(tt.filter.Batch) != "0" && len(got) > 0 {
			t.Errorf("%s: found %d", tt.name, len(got))
		}
		if pages < tt.requests || len(seen) != pages {
			t.Errorf("%s: %d requests, %d counted, want at least %d", tt.name, pages, len(seen), tt.requests)
		}
		total := 0
		for _, r := range seen {
			total += r.Jobs
			if r.Jobs > examineMax || r.Loads > loadMax || r.Bytes > loadBytesMax+loadBytesMax/4 ||
				r.Queues > 2*queues {
				t.Errorf("%s: one request reads %+v", tt.name, r)
			}
		}
		if total < large {
			t.Errorf("%s: only %d jobs were looked at", tt.name, total)
		}
	}
}

// What changes between two pages neither hides nor doubles what stays.
func TestSearchWhileJobsGo(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{}, HandlerOptions{})
	var want []job.ID
	for i := range 100 {
		id := f.push(job.Spec{})
		if i%3 != 0 {
			want = append(want, id)
		}
	}
	var got []job.ID
	cursor := ""
	for {
		p, err := f.service.Jobs(api.Filter{Namespace: "ns"}, api.PageOf{Cursor: cursor, Limit: 7})
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range p.Jobs {
			if j.ID%3 != 1 {
				got = append(got, j.ID)
			} else {
				f.do(&job.Delete{Ref: job.ByID("ns", "q", j.ID), Need: job.NeedAny})
			}
		}
		if cursor = p.Next; cursor == "" {
			break
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
}

func TestRefusedSearches(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{}, HandlerOptions{})
	for range 3 {
		f.push(job.Spec{})
	}
	p, err := f.service.Jobs(api.Filter{}, api.PageOf{Limit: 1})
	if err != nil || p.Next == "" {
		t.Fatalf("%+v, %v", p, err)
	}
	queues, err := f.service.Queues(api.QueueFilter{}, api.PageOf{Limit: 1})
	if err != nil || queues.Next != "" {
		t.Fatalf("%+v, %v", queues, err)
	}
	foreign := position{List: "queues", Filter: fingerprint(api.Filter{})}.cursor()
	wrongState := position{
		List: "jobs", Filter: fingerprint(api.Filter{}), Namespace: "ns", Queue: "q",
		State: 200,
	}.cursor()
	wrongPlace := position{
		List: "jobs", Filter: fingerprint(api.Filter{}), Namespace: "ns", Queue: "q",
		State: job.Ready, After: "xyz", Total: 1,
	}.cursor()
	for query, code := range map[string]string{
		"cursor=" + p.Next:             "",
		"state=ready&cursor=" + p.Next: "cursor",
		"cursor=" + foreign:            "cursor",
		"cursor=" + wrongState:         "cursor",
		"cursor=" + wrongPlace:         "invalid",
		"cursor=!":                     "cursor",
		"cursor=eyJ9":                  "cursor",
		"cursor=" + strings.Repeat("A", 2*cursorSizeMax): "cursor",
		"limit=0":                                "invalid",
		"limit=201":                              "invalid",
		"limit=-1":                               "invalid",
		"limit=many":                             "invalid",
		"state=tired":                            "invalid",
		"time=lunch":                             "invalid",
		"after=yesterday":                        "invalid",
		"before=1":                               "invalid",
		"batch=x":                                "invalid",
		"type=" + strings.Repeat("x", textMax+1): "invalid",
		"colour=red":                             "invalid",
		"body=" + url.QueryEscape("\x00\xff"):    "",
		"ref=99999999999999999999999&namespace=ns":     "",
		"state=ready,dead&state=leased&after=&before=": "",
	} {
		w := f.call("GET", "/api/v1/jobs?"+query, "")
		if code == "" && w.Code != 200 || code != "" &&
			(w.Code != 400 || !strings.Contains(w.Body.String(), "urn:millrace:problem:"+code)) {
			t.Errorf("%.80s: %d %s, want %q", query, w.Code, w.Body, code)
		}
	}
}

// A list of queues by a part of their names looks at a bounded number, and goes on with its cursor.
func TestQueuesByNameAreBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{}, HandlerOptions{})
	cmds := make([]job.Command, queueMax+10)
	for i := range cmds {
		cmds[i] = &job.Push{Spec: job.Spec{Namespace: "ns", Queue: fmt.Sprintf("q%05d", i)}}
	}
	f.do(cmds...)
	last := fmt.Sprintf("%05d", len(cmds)-1)
	page, err := f.service.Queues(api.QueueFilter{Name: last}, api.PageOf{})
	if err != nil || len(page.Queues) != 0 || page.Next == "" {
		t.Fatalf("%d queues, next %q, %v", len(page.Queues), page.Next, err)
	}
	page, err = f.service.Queues(api.QueueFilter{Name: last}, api.PageOf{Cursor: page.Next})
	if err != nil || len(page.Queues) != 1 || page.Queues[0].Name != "q"+last || page.Next != "" {
		t.Fatalf("then %d queues, next %q, %v", len(page.Queues), page.Next, err)
	}
}

// A search for an id asks a bounded number of queues by each request, until it has found the job.
func TestSearchByIDIsBounded(t *testing.T) {
	t.Parallel()
	most := 0
	f := newFixture(t, Options{Reads: func(r Reads) { most = max(most, r.Queues) }}, HandlerOptions{})
	cmds := make([]job.Command, askMax+10)
	for i := range cmds {
		cmds[i] = &job.Push{Spec: job.Spec{Namespace: "ns", Queue: fmt.Sprintf("q%05d", i)}}
	}
	id := f.do(cmds...)[len(cmds)-1].ID
	filter := api.Filter{Ref: fmt.Sprint(id)}
	page, err := f.service.Jobs(filter, api.PageOf{})
	if err != nil || len(page.Jobs) != 0 || page.Next == "" || page.Progress.Complete {
		t.Fatalf("%d jobs, next %q, %+v, %v", len(page.Jobs), page.Next, page.Progress, err)
	}
	page, err = f.service.Jobs(filter, api.PageOf{Cursor: page.Next})
	if err != nil || len(page.Jobs) != 1 || page.Jobs[0].ID != id || page.Next != "" {
		t.Fatalf("then %d jobs, next %q, %v", len(page.Jobs), page.Next, err)
	}
	if most > askMax+1 {
		t.Errorf("one request has read %d queues", most)
	}
}

// Searches are done one after the other, however many ask at the same time.
func TestOneSearchAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var began int
		goOn := make(chan struct{})
		f := newFixture(t, Options{Reads: func(Reads) { began++; <-goOn }}, HandlerOptions{})
		defer f.close()
		f.push(job.Spec{Namespace: "ns", Queue: "q"})
		const searches = 3
		var wg sync.WaitGroup
		for range searches {
			wg.Go(func() {
				if page, err := f.service.Jobs(api.Filter{Namespace: "ns"}, api.PageOf{}); err != nil ||
					len(page.Jobs) != 1 {
					t.Errorf("%d jobs, %v", len(page.Jobs), err)
				}
			})
		}
		synctest.Wait()
		if began != 1 {
			t.Errorf("%d searches are at work, want 1", began)
		}
		for range searches {
			goOn <- struct{}{}
		}
		wg.Wait()
	})
}

// Lists of queues, failures and tokens are made of very many records, too: they are made beside no search.
func TestListsAreSearches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Options{Tokens: &fakeTokens{}}, HandlerOptions{})
		defer f.close()
		f.service.searching <- struct{}{} // another is at work
		var wg sync.WaitGroup
		made := 0
		for _, list := range []func() error{
			func() error { _, err := f.service.Tokens(api.TokenFilter{}, api.PageOf{}); return err },
			func() error { _, err := f.service.Queues(api.QueueFilter{}, api.PageOf{}); return err },
			func() error { _, err := f.service.Failures("", ""); return err },
		} {
			wg.Go(func() {
				if err := list(); err != nil {
					t.Error(err)
				}
				made++ // one at a time, or the race detector says so
			})
		}
		synctest.Wait()
		if made != 0 {
			t.Errorf("%d lists were made beside a search", made)
		}
		<-f.service.searching
		wg.Wait()
	})
}

// A time that is bounded is at or after one, and before the other. A job that is due at no time is not due before one.
func TestMatchTimes(t *testing.T) {
	t.Parallel()
	at := func(second int64) *time.Time { return new(time.Unix(second, 0)) }
	for _, tt := range []struct {
		after, before *time.Time
		by            string
		want          bool
	}{
		{at(10), nil, "", true},
		{at(11), nil, "", false},
		{nil, at(10), "", false},
		{nil, at(11), "", true},
		{at(10), at(11), "", true},
		{nil, at(11), "run_at", false},
	} {
		m, err := newMatcher(api.Filter{After: tt.after, Before: tt.before, Time: tt.by})
		if err != nil {
			t.Fatal(err)
		}
		if got := m.outside(&job.Job{State: job.Ready, Created: job.TimeOf(*at(10))}); got != tt.want {
			t.Errorf("%v to %v by %q: %v", tt.after, tt.before, tt.by, got)
		}
	}
}

// A queue that is removed between two pages hides nothing of the next one.
func TestSearchWhileQueuesGo(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{}, HandlerOptions{})
	for range 5 {
		f.push(job.Spec{Queue: "b", Delay: time.Hour})
	}
	for range 10 {
		f.push(job.Spec{Queue: "a", Delay: 2 * time.Hour})
	}
	p, err := f.service.Jobs(api.Filter{}, api.PageOf{Limit: 7})
	if err != nil || len(p.Jobs) != 7 {
		t.Fatalf("%d jobs, %v", len(p.Jobs), err)
	}
	f.do(&job.Remove{Namespace: "ns", Queue: "a"})
	p, err = f.service.Jobs(api.Filter{}, api.PageOf{Cursor: p.Next})
	if err != nil || len(p.Jobs) != 5 {
		t.Errorf("%d jobs of the next queue, %v", len(p.Jobs), err)
	}
}
