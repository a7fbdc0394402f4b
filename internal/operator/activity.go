package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"

	"millrace/internal/api"
	"millrace/internal/job"
)

const (
	// activitySpace is where activities are kept, under their place in a ring.
	activitySpace = "admin.activity"
	activityKept  = 200
	activityText  = 200 // bytes of each text
)

// activities are the newest things that operators have done. They are kept in the store.
type activities struct {
	mu   sync.Mutex
	list []api.Activity // the newest last
	next uint64         // the place of the next
}

type actorKey struct{}

type actor struct{ who, via string }

// WithActor says who does what is done with the context.
func WithActor(r *http.Request, via string) *http.Request {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	if via == "" {
		via, _, _ = strings.Cut(r.UserAgent(), " ")
	}
	return r.WithContext(context.WithValue(r.Context(), actorKey{}, actor{host, via}))
}

// keptActivity is an activity as it is kept.
type keptActivity struct {
	api.Activity
	Number uint64 `json:"number"`
}

// load takes up what an earlier run has left.
func (a *activities) load(s *Service) error {
	values, err := s.engine.Values(activitySpace, "", activityKept)
	if err != nil {
		return fmt.Errorf("read what operators have done: %w", err)
	}
	var kept []keptActivity
	for _, v := range values {
		var k keptActivity
		if json.Unmarshal(v.Value, &k) == nil {
			kept = append(kept, k)
		}
	}
	slices.SortFunc(kept, func(x, y keptActivity) int { return int(int64(x.Number) - int64(y.Number)) }) //nolint:gosec // small numbers
	for _, k := range kept {
		a.list, a.next = append(a.list, k.Activity), k.Number+1
	}
	return nil
}

// Note keeps what an operator has done. What nobody in particular does, such as the steps of a bulk action, is not
// kept.
func (s *Service) Note(ctx context.Context, jobs int, format string, args ...any) {
	by, ok := ctx.Value(actorKey{}).(actor)
	if !ok {
		return
	}
	cut := func(text string) string {
		return strings.ToValidUTF8(text[:min(len(text), activityText)], "")
	}
	a := api.Activity{
		At: s.opts.Now().UTC(), Who: cut(by.who), Via: cut(by.via), What: cut(fmt.Sprintf(format, args...)),
		Jobs: uint64(max(0, jobs)),
	}
	s.activities.mu.Lock()
	k := keptActivity{a, s.activities.next}
	s.activities.next++
	s.activities.list = append(s.activities.list, a)
	if extra := len(s.activities.list) - activityKept; extra > 0 {
		s.activities.list = slices.Delete(s.activities.list, 0, extra)
	}
	s.activities.mu.Unlock()
	text, err := json.Marshal(k)
	if err == nil {
		// It has been done: that the client has gone must not keep it from being noted.
		_, err = s.do(context.WithoutCancel(ctx),
			&job.SetValue{Space: activitySpace, Name: fmt.Sprintf("%04d", k.Number%activityKept), Value: text})
	}
	if err != nil {
		s.log.Warn("cannot keep what an operator has done", slog.Any("error", err))
	}
}

// Activities are the newest things that operators have done, the newest first.
func (s *Service) Activities() []api.Activity {
	s.activities.mu.Lock()
	defer s.activities.mu.Unlock()
	out := slices.Clone(s.activities.list)
	slices.Reverse(out)
	return out
}
