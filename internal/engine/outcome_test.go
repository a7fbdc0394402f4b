package engine

import (
	"testing"

	"millrace/internal/job"
)

// What the server could not do is told apart from what was refused, and from what found nothing: alerts ask for it.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	for want, kinds := range map[Outcome][]job.Kind{
		OutcomeEmpty:   {job.Timeout, job.Canceled, job.Lapsing},
		OutcomeError:   {job.NoSpace, job.Draining, job.Internal},
		OutcomeRefused: {job.Invalid, job.NotFound, job.Full, job.TooLarge, job.Overloaded},
	} {
		for _, kind := range kinds {
			if got := outcomeOf(&job.Error{Kind: kind}); got != want {
				t.Errorf("%v is %v, not %v", kind, got, want)
			}
		}
	}
	if got := outcomeOf(nil); got != OutcomeOK {
		t.Errorf("no error is %v", got)
	}
}
