package lua

import (
	"testing"

	"millrace/internal/dialect/tarantool/iproto"
	"millrace/internal/dialect/tarantool/tarantooltest"
	"millrace/internal/testkit"
)

// FuzzParse parses Lua: what is understood has well-formed arguments.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"local name, type, cfg = ... ; queue.create_tube(name, type, cfg)",
		"local name = ... ; return queue.tube[name] ~= nil",
		"return queue.tube['t']:put('x', {}, nil, true, -1.5e3, ...)",
		"return box.info()", "return 1, 2", "return ...", "queue.tube.t:ack(1);", "return 'a",
		"local a, a = ... return a",
	} {
		f.Add(text, tarantooltest.MustEncode(`"t", 5, [1]`))
	}
	f.Fuzz(func(t *testing.T, text string, values []byte) {
		for at := 0; at < len(values); {
			n, err := iproto.Skip(values[at:])
			if err != nil {
				return
			}
			at += n
		}
		var a iproto.Args
		a.Index(iproto.CountValues(values), values)
		var c Chunk
		var ok bool
		testkit.Bounded(t, len(text)+len(values), func() { c, _, ok = Parse([]byte(text), &a, nil) })
		if !ok {
			return
		}
		if got := iproto.CountValues(c.Args.From(0)); got != c.Args.Count() {
			t.Errorf("%q: %d values, not %d", text, got, c.Args.Count())
		}
		if (c.Kind == Values) != (len(c.Name) == 0) {
			t.Errorf("%q: kind %d of %q", text, c.Kind, c.Name)
		}
	})
}
