package engine_test

import (
	"errors"
	"testing"

	"millrace/internal/store"
)

// An engine that has been abandoned cannot know whether what it has is the newest.
func TestNoReadWithoutProof(t *testing.T) {
	t.Parallel()
	e, s := openShared(t)
	var refused []error
	read := func() {
		e.Read(func(snap store.Snapshot, err error) {
			if err == nil {
				err = snap.Close()
			}
			refused = append(refused, err)
		})
	}
	read()
	s.end(nil)
	read()
	e.Abandon(errors.New("not the leader"))
	e.GiveUp()
	read()
	if len(refused) != 3 || refused[0] != nil || refused[1] == nil || refused[2] == nil {
		t.Errorf("reads ended with %v", refused)
	}
}
