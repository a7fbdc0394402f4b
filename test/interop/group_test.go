package interop

import (
	"fmt"
	"net/http"
	"testing"

	"millrace/internal/dialect/dialecttest"
)

// TestGroups names groups through every protocol that can say one, in one fair queue, and fetches through each: the
// groups take turns, whoever has named them. Then no more of a group are given out than its limit allows.
func TestGroups(t *testing.T) {
	t.Parallel()
	w := start(t)
	for _, out := range w.drivers {
		queue := "groups-" + out.Name
		path := "/namespaces/" + namespace + "/queues/" + queue
		w.op.call(http.MethodPut, path+"/fairness", map[string]any{"on": true}, nil)
		var want []string
		n := 0
		for i, in := range w.drivers {
			if !in.Abilities.Group {
				continue
			}
			for j := range 3 { // all of the first group before any of the next
				body := fmt.Sprint(10*j + i)
				w.must(in.Name+" pushes", w.clients[in.Name].PushWith(queue, body,
					dialecttest.Wishes{Group: "g-" + in.Name}))
			}
			n++
		}
		for j := range 3 {
			for i, in := range w.drivers {
				if in.Abilities.Group {
					want = append(want, fmt.Sprint(10*j+i))
				}
			}
		}
		var got, handles []string
		fetch := func(most int) {
			for range most {
				task, err := w.clients[out.Name].Fetch(queue, patience)
				w.must(out.Name+" fetches", err)
				got, handles = append(got, number(task.Body)), append(handles, task.Handle)
			}
		}
		fetch(n)
		w.op.call(http.MethodPut, path+"/limits", map[string]any{"group_concurrency": 1}, nil)
		if counts := w.op.counts(queue); counts["ready"] != 2*n {
			t.Errorf("%s: %v", out.Name, counts)
		}
		w.nothing(out, queue)
		for _, handle := range handles {
			w.must(out.Name+" settles", w.clients[out.Name].Ack(handle))
		}
		handles = nil
		fetch(n)
		// Without a limit it would still be one at a time, as the sub-queues of Tarantool promise.
		w.op.call(http.MethodPut, path+"/limits", map[string]any{"group_concurrency": 2}, nil)
		fetch(n)
		for _, handle := range handles {
			w.must(out.Name+" settles", w.clients[out.Name].Ack(handle))
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s fetches %v, want %v", out.Name, got, want)
		}
		w.empty(queue)
	}
}
