package masenko

import (
	"io"
	"strings"
	"testing"

	"millrace/internal/dialect"
)

// A transaction is too big that would have more than is left of the memory for unfinished input.
func TestAtomicBudget(t *testing.T) {
	t.Parallel()
	shared := dialect.NewShared(100<<10, 0)
	push := []byte(`PUSH {"name":"n","payload":"` + strings.Repeat("x", 40<<10) + `"}`)
	for range 3 { // what one has taken is given back
		c := &conn{d: New(Options{Options: dialect.Options{Shared: shared}})}
		u := new(dialect.Unit)
		command(c, u, []byte("ATOMIC"))
		command(c, u, push)
		if c.tx.over || c.tx.claim == (dialect.Claim{}) {
			t.Fatal("the first line is refused, or has claimed nothing")
		}
		command(c, u, push)
		command(c, u, push)
		if !c.tx.over || c.tx.claim != (dialect.Claim{}) {
			t.Fatal("the third line is taken, or the claim was not dropped")
		}
		command(c, u, []byte("DONE"))
		if len(u.Replies) != 1 || u.Replies[0].Text != textAtomicBig {
			t.Errorf("replies %+v", u.Replies)
		}
		command(c, u, []byte("ATOMIC"))
		command(c, u, push)
		if c.end(io.EOF); c.tx.claim != (dialect.Claim{}) {
			t.Fatal("a client that goes in the middle of a transaction leaves its claim behind")
		}
	}
}
