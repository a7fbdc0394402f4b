package operator

import (
	"fmt"
	"testing"

	"millrace/internal/api"
	"millrace/internal/job"
)

// The jobs of a holder are found, and nothing else.
func TestJobsOfHolder(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{}, HandlerOptions{})
	defer f.close()
	me, other := job.Holder{Node: 1, Num: 77}, job.Holder{Node: 1, Num: 78}
	for i, h := range []job.Holder{me, other, me} {
		f.push(job.Spec{Queue: fmt.Sprint("q", i), Type: "T"})
		f.do(&job.Fetch{Namespace: "ns", Queues: []string{fmt.Sprint("q", i)}, Max: 1, Holder: h})
	}
	f.push(job.Spec{Queue: "q0"})
	var page api.JobPage
	f.want(200, "GET", "/api/v1/jobs?holder="+api.HolderText(me), "", &page)
	if len(page.Jobs) != 2 || page.Jobs[0].Queue != "q0" || page.Jobs[1].Queue != "q2" || !page.Progress.Complete {
		t.Errorf("%+v", page)
	}
	f.want(200, "GET", "/api/v1/jobs?state=running,ready&holder=nobody", "", &page)
	if len(page.Jobs) != 0 {
		t.Errorf("%+v", page)
	}
	f.want(400, "GET", "/api/v1/jobs?state=ready&holder="+api.HolderText(me), "", nil)
}

// A job that has a number is found at once, however many queues there are; for another a bounded number is asked.
func TestFindAmongManyQueues(t *testing.T) {
	t.Parallel()
	var reads Reads
	f := newFixture(t, Options{Reads: func(r Reads) { reads = r }}, HandlerOptions{})
	defer f.close()
	cmds := make([]job.Command, 2*askMax+100)
	for i := range cmds {
		cmds[i] = &job.Push{Spec: job.Spec{Namespace: "ns", Queue: fmt.Sprintf("q%05d", i)}}
	}
	f.do(cmds...)
	numbered, plain := f.push(job.Spec{Queue: "z", Numbered: true}), f.push(job.Spec{Queue: "z"})
	page, err := f.service.Jobs(api.Filter{Ref: fmt.Sprint(numbered)}, api.PageOf{})
	if err != nil || len(page.Jobs) != 1 || page.Jobs[0].ID != numbered || reads.Queues > 2 {
		t.Errorf("%+v, %+v, %v", page, reads, err)
	}
	requests := 0
	for at := (api.PageOf{}); ; requests++ {
		if page, err = f.service.Jobs(api.Filter{Ref: fmt.Sprint(plain)}, at); err != nil || reads.Queues > askMax+2 {
			t.Fatalf("%+v, %v", reads, err)
		}
		if at.Cursor = page.Next; at.Cursor == "" || len(page.Jobs) > 0 {
			break
		}
	}
	if len(page.Jobs) != 1 || page.Jobs[0].ID != plain || requests < 2 {
		t.Errorf("after %d requests: %+v", requests, page)
	}
	if j, err := f.service.Job("ns", "", numbered); err != nil || j.Queue != "z" {
		t.Errorf("%+v, %v", j, err)
	}
}

// A blocked job tells about the jobs that it waits for.
func TestWaitsFor(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{}, HandlerOptions{})
	defer f.close()
	var blockers []job.Blocker
	for i, numbered := range []bool{true, false, true} {
		id := f.push(job.Spec{Queue: "a", Type: fmt.Sprint("T", i), Numbered: numbered})
		j, err := f.engine.Get(job.ByID("ns", "a", id))
		if err != nil {
			t.Fatal(err)
		}
		blockers = append(blockers, job.Blocker{QueueNum: j.QueueNum, ID: id})
	}
	id := f.push(job.Spec{Queue: "b", BlockedBy: blockers})
	d, err := f.service.Job("ns", "b", id)
	if err != nil || len(d.BlockedBy) != 3 || len(d.Waits) != 2 || d.Waits[0].Type != "T0" || d.Waits[1].Type != "T2" ||
		d.Waits[1].State != "ready" {
		t.Errorf("%+v, %v", d, err)
	}
}
