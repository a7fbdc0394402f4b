package faktory

import (
	"encoding/json"
	"strings"
	"testing"
)

// What is remembered of a worker is bounded: its names, and the number and the size of its labels.
func TestHelloLimits(t *testing.T) {
	t.Parallel()
	many := func(n int, text string) []string {
		labels := make([]string, n)
		for i := range labels {
			labels[i] = text
		}
		return labels
	}
	tests := []struct {
		name string
		say  map[string]any
		bad  bool
	}{
		{"usual", map[string]any{"v": 2, "wid": "w", "hostname": "h", "labels": []string{"golang", "x"}}, false},
		{"longest names", map[string]any{
			"wid":      strings.Repeat("w", workerNameMax),
			"hostname": strings.Repeat("h", workerNameMax),
		}, false},
		{"wid", map[string]any{"wid": strings.Repeat("w", workerNameMax+1)}, true},
		{"hostname", map[string]any{"hostname": strings.Repeat("h", workerNameMax+1)}, true},
		{"most labels", map[string]any{"labels": many(labelsMax, "a")}, false},
		{"labels", map[string]any{"labels": many(labelsMax+1, "")}, true},
		{"21,000 labels", map[string]any{"labels": many(21000, "")}, true},
		{"largest label", map[string]any{"labels": many(1, strings.Repeat("a", labelBytesMax))}, false},
		{"large labels", map[string]any{"labels": many(2, strings.Repeat("a", labelBytesMax))}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			text, err := json.Marshal(tt.say)
			if err != nil {
				t.Fatal(err)
			}
			if _, problem := parseHello(append([]byte("HELLO "), text...)); (problem != "") != tt.bad {
				t.Errorf("%.80s: %q", text, problem)
			}
		})
	}
}

// A connection that has fetched from many queues keeps their names no longer than the fetch.
func TestLongFetchIsForgotten(t *testing.T) {
	t.Parallel()
	c := &conn{d: &Dialect{}}
	if !c.parseQueues([]byte(strings.Repeat("queue ", fetchQueues))) || len(c.queues) != fetchQueues {
		t.Fatalf("%d queues", len(c.queues))
	}
	c.fetch.Queues = c.queues
	c.forgetFetch()
	if cap(c.queues) > 0 || c.fetch.Queues != nil {
		t.Errorf("%d names are kept", cap(c.queues))
	}
	if !c.parseQueues([]byte("a b")) {
		t.Fatal("two queues are too many")
	}
	if c.forgetFetch(); len(c.queues) != 2 {
		t.Errorf("a short list is forgotten: %q", c.queues)
	}
}
