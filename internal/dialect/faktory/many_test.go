package faktory_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"

	"millrace/internal/dialect"
	"millrace/internal/dialect/dialecttest"
	"millrace/internal/dialect/faktory"
	"millrace/internal/dialect/faktory/faktorytest"
	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/store/memstore"
)

// With very many queues INFO lists the first by name, tells how many it leaves out, and has exact totals.
func TestInfoOfVeryManyQueues(t *testing.T) {
	t.Parallel()
	inBubble(t, faktory.Options{}, func(t *testing.T, b *bench) {
		t.Helper()
		const more = 25
		cmds := make([]job.Command, dialect.QueuesShown+more)
		for i := range cmds {
			cmds[i] = &job.Push{Spec: job.Spec{Namespace: "default", Queue: fmt.Sprintf("q%05d", i)}}
		}
		for _, res := range b.Engine.NewCaller().Do(t.Context(), cmds...) {
			if res.Err != nil {
				t.Fatal(res.Err)
			}
		}
		c := b.client("")
		text, err := c.Call("INFO")
		must(t, err)
		var info struct {
			Faktory struct {
				Queues  map[string]uint64 `json:"queues"`
				Total   int               `json:"total_queues"`
				Ready   int               `json:"total_enqueued"`
				Missing int               `json:"queues_not_listed"`
			} `json:"faktory"`
		}
		must(t, json.Unmarshal([]byte(text), &info))
		f := &info.Faktory
		same(t, "listed", len(f.Queues), dialect.QueuesShown)
		same(t, "totals", []int{f.Total, f.Ready, f.Missing}, []int{len(cmds), len(cmds), more})
		if _, there := f.Queues["q00000"]; !there {
			t.Error("the first queue by name is not listed")
		}
		must(t, c.OK("QUEUE PAUSE *"))
		for _, name := range []string{"q00000", "q10000", fmt.Sprintf("q%05d", len(cmds)-1)} {
			q, _, err := b.Engine.Queue("default", name)
			must(t, err)
			same(t, "paused "+name, q.Paused, true)
		}
	})
}

// MUTATE by jids meets every job of a jid, however many there are, and leaves the others alone.
func TestMutateJidOfManyJobs(t *testing.T) {
	t.Parallel()
	inBubble(t, faktory.Options{}, func(t *testing.T, b *bench) {
		t.Helper()
		c := b.client("")
		var jobs []faktorytest.Job
		add := func(jid string, n int) {
			for range n {
				j := newJob("mails")
				j.JID, j.At = jid, "2036-01-01T00:00:00Z"
				jobs = append(jobs, j)
			}
		}
		add("twelve-times", 12)
		add("very-often", 3*job.EachMax+5)
		add("not-meant", 3)
		refused, err := c.PushBulk(jobs)
		must(t, err)
		same(t, "refused", len(refused), 0)
		must(t, c.OK(`MUTATE {"cmd":"kill","target":"scheduled","filter":{"jids":["very-often","unknown-one","twelve-times"]}}`))
		q, _, err := b.Engine.Queue("default", "mails")
		must(t, err)
		same(t, "dead and scheduled", []uint64{q.Counts[job.Dead], q.Counts[job.Scheduled]},
			[]uint64{12 + 3*job.EachMax + 5, 3})
	})
}

// QUEUE REMOVE * takes a step for every few queues: the engine has others to serve. On an engine that waits for the
// disk each step is a commit.
func TestRemoveInPieces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, err := engine.Open(engine.Options{Store: memstore.New(), Seed: 1})
		must(t, err)
		defer func() { must(t, e.Close()) }()
		s := dialecttest.Start(t)
		defer s.Stop(t)
		var o faktory.Options
		o.Engine = e
		conn, err := s.Serve(faktory.New(o), 8<<20).Dial()
		must(t, err)
		c, err := faktorytest.New(conn, "")
		must(t, err)
		const queues, most = 256, 64
		cmds := make([]job.Command, queues)
		for i := range cmds {
			cmds[i] = &job.Push{Spec: job.Spec{Namespace: "default", Queue: fmt.Sprintf("q%05d", i)}}
		}
		for _, res := range e.NewCaller().Do(t.Context(), cmds...) {
			if res.Err != nil {
				t.Fatal(res.Err)
			}
		}
		commits := e.Stats().Commits
		must(t, c.OK("QUEUE REMOVE *"))
		if n := e.Stats().Commits - commits; n < queues/most {
			t.Errorf("%d queues were removed in %d steps, want at least %d", queues, n, queues/most)
		}
		sums, err := e.Sums("")
		must(t, err)
		same(t, "jobs that are left", sums.Counts[job.Ready], uint64(0))
	})
}
