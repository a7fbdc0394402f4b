package interop

import (
	"strconv"
	"testing"

	"github.com/tinylib/msgp/msgp"

	"millrace/internal/dialect/tarantool/tarantooltest"
)

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }

// TestMessagePack puts values that are no strings through Tarantool's procedures: it gets
// them back byte for byte, others see the MessagePack, or base64 where it must be JSON.
func TestMessagePack(t *testing.T) {
	t.Parallel()
	w := start(t)
	c := w.dialTarantool()
	values := map[string]msgp.Raw{
		"map":      tarantooltest.MustEncode(`{"a": [1, 2.5, nil], "b": true}`),
		"number":   msgp.AppendInt(nil, '1'), // one byte, which is JSON, too
		"big":      msgp.AppendUint64(nil, 1<<64-1),
		"long int": {0xcf, 0, 0, 0, 0, 0, 0, 0, 7}, // not the shortest form
		"nil":      msgp.AppendNil(nil),
		"ext":      {0xd4, 1, 2},
		"array":    tarantooltest.MustEncode(`[1, "x", [[]]]`),
	}
	for name, raw := range values {
		for _, out := range w.drivers {
			queue := "packed-" + out.Name
			w.must("create", c.CreateTube(queue, "fifottl"))
			_, err := c.Put(queue, raw)
			w.must("put", err)
			task, err := w.clients[out.Name].Fetch(queue, patience)
			w.must(out.Name+" fetches", err)
			want := string(raw)
			if out.ShowPacked != nil {
				want = out.ShowPacked(want)
			}
			if out.Name == "tarantool15" {
				// Numbers are decimal text there.
				switch name {
				case "number":
					want = "49"
				case "big":
					want = "18446744073709551615"
				case "long int":
					want = "7"
				}
			}
			if task.Body != want {
				t.Errorf("%s fetches %s: %q, want %q", out.Name, name, task.Body, want)
			}
			w.must(out.Name+" settles", w.clients[out.Name].Ack(task.Handle))
		}
	}
}
