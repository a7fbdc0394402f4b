package sim

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"millrace/internal/job"
)

// compare says how the answer of the machine to a command differs from that of the
// model; empty if it does not. Jobs that a waiting caller received in the same step
// may already be shown in its hands. What the jobs name of batches and locks counts as
// far as it is so by now.
func compare(cmd job.Command, got, want Completion, delivered map[job.ID]bool, now View) string {
	g, w := got.Result, want.Result
	for _, jobs := range [][]job.Job{g.Jobs, w.Jobs} {
		for i := range jobs {
			now.Forget(&jobs[i])
		}
	}
	if c, ok := cmd.(*job.Atomic); ok && endedTwice(c, g.Err, w.Err) {
		return ""
	}
	if d := compareErrors(g.Err, w.Err); d != "" || w.Err != nil {
		return d
	}
	differ := func(what string, g, w any) string {
		if fmt.Sprint(g) == fmt.Sprint(w) {
			return ""
		}
		return fmt.Sprintf("%s: got %v, want %v", what, g, w)
	}
	switch cmd.(type) {
	case *job.Push, *job.RunSchedule:
		state := g.State
		if delivered[g.ID] && state == job.Leased {
			state = job.Ready
		}
		if d := differ("push", []any{g.ID, g.Serial, g.HasSerial, state},
			[]any{w.ID, w.Serial, w.HasSerial, w.State}); d != "" {
			return d
		}
	case *job.Atomic:
		return differ("ids", g.IDs, w.IDs)
	case *job.NewBatch:
		return differ("batch", g.Batch, w.Batch)
	case *job.Run:
		if len(g.Jobs) != 1 {
			return fmt.Sprintf("run: %d jobs", len(g.Jobs))
		}
		return differ("run", Identity(&g.Jobs[0]), Identity(&w.Jobs[0]))
	case *job.Kick, *job.Each, *job.Respawn, *job.Cancel, *job.ResumeHolder, *job.ReleaseAll, *job.Purge,
		*job.Report, *job.DropValue,
		*job.SetSchedules, *job.PauseSchedule, *job.SetHooks:
		if d := differ("count", g.Count, w.Count); d != "" {
			return d
		}
	case *job.Fetch, *job.Ack, *job.Fail, *job.Release, *job.Return, *job.Bury, *job.Delete, *job.Touch, *job.Promote,
		*job.Kill, *job.Move, *job.Await, *job.EndHolder, *job.Configure, *job.Pause, *job.Resume, *job.Remove,
		*job.Flush, *job.OpenBatch,
		*job.CommitBatch, *job.SetValue, *job.DropSchedule, *job.SetLimits, *job.RaiseFormat,
		*job.SetFair, *job.KeepHolder:
	}
	if want.Gone && len(g.Jobs) == 0 {
		return ""
	}
	if len(g.Jobs) != len(w.Jobs) {
		return fmt.Sprintf("%d jobs, want %d", len(g.Jobs), len(w.Jobs))
	}
	for i := range w.Jobs {
		a, b := &g.Jobs[i], &w.Jobs[i]
		if _, ok := cmd.(*job.Fetch); ok && a.ID == b.ID && a.ReadyAt != b.ReadyAt {
			return fmt.Sprintf("job %d: ready at %d, want %d", b.ID, a.ReadyAt, b.ReadyAt)
		}
		if want.Gone || (delivered[b.ID] && a.State != b.State) {
			if a.ID != b.ID || a.Key != b.Key || !bytes.Equal(a.Body, b.Body) || a.Type != b.Type {
				return differ("job", Describe(a), Describe(b))
			}
			continue
		}
		if d := differ("job", Describe(a), Describe(b)); d != "" {
			return d
		}
	}
	return ""
}

// endedTwice reports whether both refuse the same ack or delete, which is not the
// first of an Atomic, because of the state of the job: for one that the Atomic has
// ended already the document leaves open how.
func endedTwice(c *job.Atomic, got, want *job.Error) bool {
	if got == nil || want == nil || got.Index != want.Index || got.Index == 0 {
		return false
	}
	if _, ok := c.Ops[got.Index].(*job.Push); ok {
		return false
	}
	state := []job.Kind{job.NotFound, job.NotLeased, job.Finished, job.BadState}
	return slices.Contains(state, got.Kind) && slices.Contains(state, want.Kind)
}

func compareErrors(got, want *job.Error) string {
	switch {
	case got == nil && want == nil:
		return ""
	case got == nil:
		return fmt.Sprintf("succeeded, want refusal %q", want.Text)
	case want == nil:
		return fmt.Sprintf("refused with %q, want success", got.Text)
	case got.Kind != want.Kind || got.Index != want.Index:
		return fmt.Sprintf("refused with %q at %d, want %q at %d", got.Text, got.Index, want.Text, want.Index)
	default:
		return ""
	}
}

// diff shows the lines that differ between two dumps, each with the line of its
// queue above it.
func diff(got, want string) string {
	if got == want {
		return ""
	}
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	var out []string
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	for _, l := range a {
		if !slices.Contains(b, l) {
			out = append(out, "  machine: "+l)
		}
	}
	for _, l := range b {
		if !slices.Contains(a, l) {
			out = append(out, "  model:   "+l)
		}
	}
	if len(out) == 0 {
		out = append(out, "  the same lines in another order:\n  machine: "+strings.Join(a, "\n           "),
			"  model:   "+strings.Join(b, "\n           "))
	}
	return strings.Join(out, "\n")
}
