package sim

import (
	"testing"
	"time"

	"millrace/internal/engine"
	"millrace/internal/job"
)

// TestRegressions plays what seeds have found, shrunk: each once made the machine and the model disagree.
func TestRegressions(t *testing.T) {
	t.Parallel()
	small := engine.CoreOptions{
		Window: 1, Resident: 10, BodyBytes: 19, Horizon: 4 * time.Second, TimersPerLoad: 2, TimersPerStep: 1000,
		Few: 3, SweepStep: 1,
		StepWork: 256, NamesPerStep: 6, Keys: 4, GroupWindow: 3, Groups: 1,
	}
	tight := small
	tight.StepWork, tight.NamesPerStep = 2, 1
	push := func(queue string) *job.Push {
		return &job.Push{Spec: job.Spec{Namespace: "a", Queue: queue}}
	}
	fetch := func(wait time.Duration, queues ...string) *job.Fetch {
		return &job.Fetch{Namespace: "a", Queues: queues, Wait: wait}
	}
	as := func(f *job.Fetch, holder int) *job.Fetch {
		f.Holder = holders[holder]
		return f
	}
	leased := push("q")
	leased.Spec.Policy.Lease = 4 * time.Second
	failing := push("r")
	failing.RoomWait = 30 * time.Second
	failing.Spec.Policy = job.Policy{Lease: 7404 * time.Millisecond, MaxFails: 2, Lapse: job.LapseFail}
	limit := func(queue string, l job.Limits) *job.SetLimits {
		return &job.SetLimits{Namespace: "a", Queue: queue, Limits: l}
	}
	proceed := action{deed: deedProceed}
	for name, c := range map[string]struct {
		options engine.CoreOptions
		actions []any // commands, times to pass and other actions
	}{
		"a wait that ends before the rate allows a job": {small, []any{
			limit("r", job.Limits{Rate: 1, Per: time.Minute}), push("r"), push("r"), leased, fetch(0, "r", "q"),
			&job.Fetch{Namespace: "a", Queues: []string{"r", "q"}}, fetch(5*time.Second, "r"),
			192 * time.Hour, push("z"),
		}},
		"a worker that has its fill when the rate is used up": {small, []any{
			limit("r", job.Limits{Worker: 1, Rate: 7, Per: 2 * time.Second}), push("r"), as(fetch(0, "r"), 3),
			push("r"), push("r"),
			2 * time.Second, as(fetch(time.Hour, "r"), 3), as(fetch(time.Hour, "r"), 1), 2 * time.Second, push("z"),
		}},
		"a caller that is still to leave its lists": {tight, []any{
			&job.Configure{Namespace: "a", Queue: "r", Settings: job.Settings{Capacity: 1}}, push("r"), failing,
			&job.Remove{Namespace: "a", Queue: "r"}, fetch(0, "r"), fetch(time.Hour, "r"),
			as(fetch(time.Hour), 1), as(fetch(time.Hour), 1), as(fetch(time.Hour, "q", "r"), 1),
			3 * time.Second, push("z"),
			3 * time.Second, push("z"), proceed, 2 * time.Second,
			action{deed: deedCommand, cmd: &job.EndHolder{Holder: holders[1]}, later: true},
			push("r"),
		}},
		"the time after a jump": {small, []any{
			limit("s", job.Limits{Rate: 3, Per: time.Minute}),
			action{deed: deedCommand, cmd: push("z"), seal: true},
			time.Microsecond,
			action{deed: deedJump},
			action{deed: deedCommit},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var pass time.Duration
			i, token := 0, uint64(0)
			_, err := execute(settings{options: c.options, every: 1, checks: 1}, func(_ *run) (action, bool) {
				for ; i < len(c.actions); i++ {
					switch a := c.actions[i].(type) {
					case time.Duration:
						pass = a
						continue
					case action:
						a.pass, pass = pass, 0
						token++
						a.token = token
						i++
						return a, true
					case job.Command:
						token++
						i++
						out := action{deed: deedCommand, cmd: a, token: token, pass: pass}
						pass = 0
						return out, true
					}
				}
				return action{}, false
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}
