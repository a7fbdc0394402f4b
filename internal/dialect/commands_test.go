package dialect_test

import (
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/job"
	"millrace/internal/testkit"
)

func TestCommands(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := dialect.NewCommands("whatever", "PUSH", "", "FETCH")
		_, server := testkit.Pipe(0)
		tally := dialect.NewTally(c, dialect.NewConn(server, dialect.Limits{}))
		testkit.Advance(t, time.Hour)
		tally.Begin()
		testkit.Advance(t, 2*time.Second)
		took := tally.Took() // a unit of three
		tally.Count(1, true, took)
		tally.Count(1, false, took)
		tally.Count(0, false, took)
		testkit.Advance(t, 3*time.Second)
		tally.Ended(3, true) // begun when the unit was answered
		want := []dialect.CommandFigures{
			{Name: "unknown", Errors: 1},
			{Name: "PUSH", OK: 1, Errors: 1},
			{Name: "FETCH", OK: 1},
		}
		sums := []time.Duration{2 * time.Second, 4 * time.Second, 3 * time.Second}
		got := c.Figures()
		if len(got) != len(want) {
			t.Fatalf("%d commands", len(got))
		}
		for i, f := range got {
			if f.Name != want[i].Name || f.OK != want[i].OK || f.Errors != want[i].Errors || f.Times.Sum != sums[i] ||
				f.Times.Count != f.OK+f.Errors {
				t.Errorf("%s: %d ok, %d errors, %d took %v", f.Name, f.OK, f.Errors, f.Times.Count, f.Times.Sum)
			}
		}
	})
}

func TestServed(t *testing.T) {
	t.Parallel()
	for err, want := range map[*job.Error]bool{
		nil: true, job.ErrTimeout: true, job.ErrCanceled: true, job.ErrDraining: true, job.ErrInternal: false,
		job.ErrNotFound: false,
	} {
		if got := dialect.Served(err); got != want {
			t.Errorf("%v is %v", err, got)
		}
	}
}

// What a command costs that is a unit of its own.
func BenchmarkCommands(b *testing.B) {
	c := dialect.NewCommands("", "PUSH")
	_, server := testkit.Pipe(0)
	tally := dialect.NewTally(c, dialect.NewConn(server, dialect.Limits{}))
	b.ReportAllocs()
	for b.Loop() {
		tally.Begin()
		tally.Ended(1, true)
	}
}
