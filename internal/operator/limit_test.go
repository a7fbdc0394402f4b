package operator

import (
	"testing"

	"millrace/internal/api"
)

// What is noted of limits that an operator has set names each of them.
func TestLimitsText(t *testing.T) {
	t.Parallel()
	for want, l := range map[string]api.Limits{
		"none": {Rate: "0", GroupRate: "0"},
		"4 at a time, 2 by one worker, slots free after 1.5 s, rate 10/s, burst 3": {
			Concurrency: 4, Worker: 2, SlotSeconds: 1.5, Rate: "10/s", Burst: 3,
		},
		"1 at a time of a group, rate 5/m of a group, burst 2 of a group": {
			GroupConcurrency: 1, GroupRate: "5/m", GroupBurst: 2,
		},
	} {
		if got := limitsText(&l); got != want {
			t.Errorf("limits %+v: %q, want %q", l, got, want)
		}
	}
}
