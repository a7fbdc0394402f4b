package machine

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"millrace/internal/record"
)

// What the cache has is what was last put, and it has at most twice its limit.
func TestKeyCache(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 5))
	const limit = 16
	c := newKeyCache(limit)
	model := map[keyName]record.KeyRef{}
	hits := 0
	for i := range 20_000 {
		k := keyName{fmt.Sprint(rnd.IntN(2)), fmt.Sprint(rnd.IntN(30))}
		switch rnd.IntN(3) {
		case 0:
			r := record.KeyRef{More: i%2 == 0}
			r.Queue, r.ID = 1, 1
			r.Queue += record.QueueID(i)
			c.put(k, r)
			model[k] = r
		case 1:
			c.drop(k)
			delete(model, k)
		}
		if r, ok := c.get(k); ok {
			hits++
			if want, there := model[k]; !there || r != want {
				t.Fatalf("key %v is %+v, want %+v, %v", k, r, want, there)
			}
		}
		if n := len(c.young) + len(c.old); n > 2*limit {
			t.Fatalf("%d keys are in memory", n)
		}
	}
	if hits < 5000 {
		t.Errorf("%d of 20000 look-ups were answered", hits)
	}
}
