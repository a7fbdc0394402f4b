package migrate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"millrace/internal/dialect"
)

// fakeFollower gives out jobs until it has none, and is interrupted then.
type fakeFollower struct {
	left      int
	interrupt context.CancelFunc
	done      []string
	aside     []string
}

func (f *fakeFollower) Protocol() string { return "p" }
func (f *fakeFollower) Name() string     { return "p:here" }
func (f *fakeFollower) Close() error     { return nil }

func (f *fakeFollower) Fetch(ctx context.Context) (jobs []*dialect.Arrival, err error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	for range min(f.left, 3) {
		f.left--
		jobs = append(jobs, &dialect.Arrival{ID: fmt.Sprint(f.left), Queue: "q", State: "ready"})
	}
	if f.left == 0 {
		f.interrupt()
	}
	return jobs, nil
}

func (f *fakeFollower) Settle(jobs []*dialect.Arrival, arrived []bool, why []string) error {
	for i, a := range jobs {
		if arrived[i] {
			f.done = append(f.done, a.ID)
		} else {
			f.aside = append(f.aside, a.ID+" "+why[i])
		}
	}
	return nil
}

// Jobs are settled at the source when the server has them, and not before; those that it refuses are set aside. What
// was fetched before the end is passed on.
func TestFollow(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f := &fakeFollower{left: 20, interrupt: cancel}
	server := &fakeServer{arrived: map[string]bool{"5": true}}
	r, err := Follow(ctx, f, Options{Server: server})
	if err != nil {
		t.Fatal(err)
	}
	if len(f.done) != 19 || strings.Join(f.aside, ",") != "7 seven" || len(server.order) != 18 {
		t.Errorf("done %v, aside %v, arrived %v", f.done, f.aside, server.order)
	}
	if sum := r.Sum(); sum.Read != 20 || sum.Arrived != 18 || sum.Repeated != 1 || sum.Refused != 1 {
		t.Errorf("%+v", sum)
	}
	broken := errors.New("broken")
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	f = &fakeFollower{left: 5, interrupt: cancel}
	server.fail = func(int) error { return broken }
	if _, err := Follow(ctx, f, Options{Server: server}); !errors.Is(err, broken) || len(f.done)+len(f.aside) > 0 {
		t.Errorf("%v, done %v, aside %v", err, f.done, f.aside)
	}
	if _, err := OpenFollower(t.Context(), "other", "x"); err == nil || !strings.Contains(err.Error(), "is none of") {
		t.Errorf("%v", err)
	}
}
