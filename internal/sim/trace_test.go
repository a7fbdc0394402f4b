package sim

import (
	"fmt"
	"strings"

	"millrace/internal/job"
)

// startTime is when every simulated world begins.
const startTime job.Time = 1_700_000_000_000_000

// show returns a command with the fields that are set.
func show(cmd job.Command) string { return Text(cmd) }

// showResult returns an answer as text.
func showResult(r job.Result) string {
	if r.Err != nil {
		return fmt.Sprintf("refusal %q", r.Err.Text)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "id=%d state=%s count=%d ids=%v", r.ID, r.State, r.Count, r.IDs)
	for i := range r.Jobs {
		b.WriteString("\n  " + Describe(&r.Jobs[i]))
	}
	return b.String()
}
