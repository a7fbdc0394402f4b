package engine

import (
	"testing"

	"millrace/internal/job"
)

// What the server could not do is told apart from what was refused, and from what found nothing: alerts ask for it.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		want  Outcome
		kinds []job.Kind
	}{
		{OutcomeEmpty, []job.Kind{job.Timeout, job.Canceled, job.Lapsing}},
		{OutcomeError, []job.Kind{job.NoSpace, job.Draining, job.Internal}},
		{OutcomeRefused, []job.Kind{job.Invalid, job.NotFound, job.Full, job.TooLarge, job.Overloaded}},
	} {
		for _, kind := range test.kinds {
			if got := outcomeOf(&job.Error{Kind: kind}); got != test.want {
				t.Errorf("%v is %v, not %v", kind, got, test.want)
			}
		}
	}
	if got := outcomeOf(nil); got != OutcomeOK {
		t.Errorf("no error is %v", got)
	}
}
