package tarantool_test

import (
	"strings"
	"testing"

	"millrace/internal/dialect/tarantool"
)

const (
	noID    = "19: Invalid key part count in an exact match (expected 1, got 0)"
	wrongID = "18: Supplied key type of part 0 does not match index part type: expected unsigned"
)

// Every method does the same in every type of tube, except that touch is not for all.
func TestEveryMethodOfEveryType(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"fifo", "fifottl", "utube", "utubettl", "limfifottl"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			inBubble(t, tarantool.Options{}, func(s *site) {
				a, b := s.client(), s.client()
				a.want("queue.create_tube", `"k", "`+kind+`"`, `[]`)
				on := func(v *visitor, call, want string) {
					t.Helper()
					method, args, _ := strings.Cut(strings.TrimSuffix(call, ")"), "(")
					v.want("queue.tube.k:"+method, args, want)
				}
				for _, id := range []struct{ arg, refused, missing string }{
					{"", noID, noID},
					{"nil", noID, noID},
					{`"0"`, wrongID, wrongID},
					{"-1", wrongID, wrongID},
					{"0.5", wrongID, wrongID},
					{"[0]", wrongID, wrongID},
					{"7", "32: Task was not taken", "32: Task 7 not found"},
				} {
					on(a, "ack("+id.arg+")", id.refused)
					on(a, "release("+id.arg+")", id.refused)
					if id.arg != "" {
						on(a, "touch("+id.arg+", 5)", id.refused)
					}
					on(a, "peek("+id.arg+")", id.missing)
					on(a, "bury("+id.arg+")", id.missing)
					on(a, "delete("+id.arg+")", id.missing)
				}
				on(a, "put()", "39: Tuple field 3 required by space format is missing")
				on(a, "put(1, 2)", "32: bad argument")
				on(a, "take([])", "32: bad argument")
				on(a, "kick({})", "32: bad argument")

				on(a, "put(nil)", `[[0, "r", nil]]`)
				on(a, "peek(0)", `[[0, "r", nil]]`)
				on(b, "ack(0)", "32: Task was not taken")
				on(a, "take()", `[[0, "t", nil]]`)
				for _, method := range []string{"ack(0)", "release(0)", "touch(0, 1)"} {
					on(b, method, "32: Task was not taken")
				}
				touched := `[[0, "t", nil]]`
				if kind == "fifo" || kind == "utube" {
					touched = "32: " + kind + " queue does not support touch"
				}
				on(a, "touch(0, 1)", touched)
				on(a, "touch(0)", `[]`)
				on(a, "release(0)", `[[0, "r", nil]]`)
				on(b, "take(0)", `[[0, "t", nil]]`)
				on(a, "bury(0)", `[[0, "!", nil]]`)
				on(b, "ack(0)", "32: Task was not taken")
				on(a, "peek(0)", `[[0, "!", nil]]`)
				on(a, "take(0)", `[]`)
				on(a, "kick()", `[1]`)
				on(b, "take(0)", `[[0, "t", nil]]`)
				on(a, "release_all()", `[]`)
				on(b, "ack(0)", "32: Task was not taken")
				on(b, "take(0)", `[[0, "t", nil]]`)
				on(a, "drop()", "32: There are taken tasks in the tube")
				on(b, "ack(0)", `[[0, "-", nil]]`)
				on(a, "put([1, {}])", `[[1, "r", [1, {}]]]`)
				on(b, "delete(1)", `[[1, "-", [1, {}]]]`)
				on(a, "put(2)", `[[2, "r", 2]]`)
				on(a, "truncate()", `[]`)
				on(a, "peek(2)", "32: Task 2 not found")
				on(a, "grant()", `[]`)
				on(a, "on_task_change()", `[]`)
				on(a, "nope()", "33: Procedure 'queue.tube.k:nope' is not defined")
				b.send(1, "queue.tube.k:take", "")
				on(a, "drop()", "32: There are consumers connected the tube")
				b.leave()
				on(a, "drop()", `[true]`)
				on(a, "put(3)", "33: Procedure 'queue.tube.k:put' is not defined")
			})
		})
	}
}
