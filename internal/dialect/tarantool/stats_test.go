package tarantool_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"millrace/internal/dialect/dialecttest"
	"millrace/internal/dialect/tarantool"
)

// An answer that lists all tubes has a bound, and a refusal leaves the connection as it was.
func TestListsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &site{Server: dialecttest.Start(t), t: t}
		defer func() { s.Stop(t) }()
		d := tarantool.New(tarantool.Options{Engine: s.Engine})
		d.SetListSize(1 << 10)
		s.l = s.Serve(d, 1<<20)
		c := s.client()
		const tooMany = "32: Too many tubes to list: ask for each by its name"
		for name := range strings.SplitSeq("abcdefghijkl", "") {
			c.want("queue.create_tube", `"`+name+`", "fifo"`, `[]`)
		}
		c.want("queue.stats", "", tooMany)
		c.want("queue.statistics", "", tooMany)
		c.want("queue.tube", "", `[["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"]]`)
		if got, err := c.Call("queue.statistics", `"a"`); err != nil || !strings.Contains(got, `"total": 0`) {
			t.Errorf("%s, %v", got, err)
		}
		d.SetListSize(4)
		c.want("queue.tube", "", tooMany)
		d.SetListSize(512)
		for _, name := range []string{"a", "b"} {
			c.want("queue.take", `1, "`+name+`", 0`, `[]`)
		}
		if got, err := c.Call("queue.statistics", ""); err != nil || strings.Count(got, ".take_timeout") != 2 {
			t.Errorf("%s, %v", got, err)
		}
		c.want("queue.take", `1, "c", 0`, `[]`)
		c.want("queue.statistics", "", tooMany)
	})
}
