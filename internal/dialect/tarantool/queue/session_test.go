package queue

import (
	"testing"
	"time"

	"millrace/internal/dialect"
)

// Sessions without a connection are remembered up to a limit: those beyond it end at once, and room comes back.
func TestSessionsLeftMax(t *testing.T) {
	t.Parallel()
	var all sessions
	all.init(time.Hour)
	all.leftMax = 2
	leave := func() (*session, time.Duration) {
		s := &session{id: dialect.NewUUID()}
		all.byID[s.id] = s
		return s, all.end(s)
	}
	first, grace := leave()
	if grace != time.Hour {
		t.Errorf("the first has a grace of %v", grace)
	}
	leave()
	if third, grace := leave(); grace != 0 || all.byID[third.id] != nil || len(all.byID) != 2 {
		t.Errorf("the third has a grace of %v, and %d are remembered", grace, len(all.byID))
	}
	first.until = time.Now().Add(-time.Second) // its grace is over
	if _, grace := leave(); grace != time.Hour || len(all.byID) != 2 {
		t.Errorf("when there is room again the grace is %v, and %d are remembered", grace, len(all.byID))
	}
}
