//go:build linux

package faults

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"
	"unicode/utf8"

	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/store"
)

const namespace = "ns"

// long is longer than any test runs.
const long = 1000 * time.Hour

// must lets an engine do something that it has no reason to refuse.
func must(t *testing.T, c *engine.Caller, cmds ...job.Command) []job.Result {
	t.Helper()
	results := c.Do(t.Context(), cmds...)
	for i := range results {
		if err := results[i].Err; err != nil {
			t.Fatalf("%T: %v", cmds[i], err)
		}
	}
	return results
}

func push(queue, body string) *job.Push {
	return &job.Push{Spec: job.Spec{Namespace: namespace, Queue: queue, Body: []byte(body), BodyKind: job.BodyBytes}}
}

// bytesOf returns n bytes that do not compress.
func bytesOf(rng *rand.Rand, n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(rng.Uint32())
	}
	return p
}

// populate pushes jobs, and brings them to every state there is.
func populate(t *testing.T, e *engine.Engine, rng *rand.Rand, rounds int) {
	t.Helper()
	c := e.NewCaller()
	for i := range rounds {
		queue := fmt.Sprint("q", i%3)
		spec := job.Spec{
			Namespace: namespace, Queue: queue, Type: "t", BodyKind: job.BodyBytes,
			Body: bytesOf(rng, rng.IntN(1500)), Extra: bytesOf(rng, rng.IntN(20)), Origin: job.Door(1 + i%5),
		}
		ready, keyed, later, kept, retried, group, failed := spec, spec, spec, spec, spec, spec, spec
		ready.Numbered = true
		keyed.Key, keyed.Unique, keyed.Tracked = fmt.Sprint("key", rng.Uint64()), true, true
		later.Delay, later.TTL = long, 2*long
		kept.Policy = job.Policy{Keep: true, ExpireAt: job.TimeOf(time.Now().Add(long))}
		retried.Policy = job.Policy{Backoff: job.Backoff{Unit: long, Power: 1}}
		group.Group, group.Numbered = fmt.Sprint("g", i%2), true
		failed.Policy = job.Policy{MaxFails: 1, Exhaust: job.ExhaustKeep, ExpireAt: job.TimeOf(time.Now().Add(long))}
		r := must(
			t, c, &job.Push{Spec: ready}, &job.Push{Spec: keyed}, &job.Push{Spec: later}, &job.Push{Spec: kept},
			&job.Push{Spec: retried},
			&job.Push{Spec: group}, &job.Push{Spec: spec}, &job.Push{Spec: spec}, &job.Push{Spec: spec},
			&job.Push{Spec: failed},
		)
		ids := make([]job.ID, len(r))
		for i := range r {
			ids[i] = r[i].ID
		}
		ref := func(i int) job.Ref { return job.ByID(namespace, queue, ids[i]) }
		blocked := push(queue, "blocked")
		blocked.Spec.BlockedBy = []job.Blocker{{Number: r[0].ID.Number()}}
		must(
			t, c, blocked,
			&job.Report{
				Namespace: namespace, Key: keyed.Key, Percent: int64(i), SetPercent: true,
				Text: "on its way", SetText: true,
			},
			&job.Ack{Ref: ref(3), Need: job.NeedAny, Result: bytesOf(rng, 40)},
			&job.Fail{Ref: ref(4), Need: job.NeedAny, Failure: job.Failure{Type: "E", Message: "no"}},
			&job.Bury{Ref: ref(6), Need: job.NeedAny},
			&job.Kill{Ref: ref(7)},
			&job.Ack{Ref: ref(8), Need: job.NeedAny},
			&job.Fail{Ref: ref(9), Need: job.NeedAny, Result: []byte("gave up")},
			&job.Fetch{Namespace: namespace, Queues: []string{queue}, Max: 1, DefaultLease: long},
			&job.SetValue{Space: "space", Name: fmt.Sprint("name", i%4), Value: bytesOf(rng, 30)},
		)
	}
	b := must(t, c, &job.NewBatch{
		Namespace: namespace, Text: "batch", Success: &push("done", "").Spec, OpenFor: long,
		KeepFor: long, KeepDone: long,
	})
	member := push("batched", "member")
	member.Spec.Batch = b[0].Batch
	must(t, c, member, &job.CommitBatch{Namespace: namespace, Batch: b[0].Batch},
		&job.Pause{Namespace: namespace, Queue: "batched"})
}

// jobsOf reads every job with all that belongs to it, as queries do, and returns a line for each.
func jobsOf(r store.Reader) ([]string, error) {
	q := engine.NewQuery(r)
	queues, err := q.Queues("", "", 0)
	var lines []string
	for i := range queues {
		info := &queues[i]
		lines = append(lines, fmt.Sprintf("queue %s/%s %v", info.Namespace, info.Name, info.Counts))
		for state := range job.State(job.StateCount) {
			if info.Counts[state] == 0 || err != nil {
				continue
			}
			var page engine.Page
			page, err = q.List(engine.ListOptions{
				Namespace: info.Namespace, Queue: info.Name, State: state,
				Limit: 1 << 30, Bodies: true,
			})
			for i := range page.Jobs {
				j := &page.Jobs[i]
				lines = append(lines, fmt.Sprintf("%s/%s %v %d key=%q type=%q kind=%d origin=%d attempts=%d fails=%d "+
					"failures=%d extra=%s body=%s result=%s",
					j.Namespace, j.Queue, j.State, j.ID, j.Key, j.Type, j.BodyKind, j.Origin, j.Attempts,
					j.Fails, len(j.Failures),
					show(j.Extra), show(j.Body), show(j.Result)))
			}
		}
	}
	return lines, err
}

// show returns bytes for people if they are few and text, and what they are known by if not.
func show(p []byte) string {
	if len(p) < 60 && utf8.Valid(p) {
		return strconv.Quote(string(p))
	}
	sum := sha256.Sum256(p)
	return fmt.Sprintf("%d:%x", len(p), sum[:12])
}
