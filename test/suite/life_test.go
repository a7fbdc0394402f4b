package suite

import (
	"errors"
	"io"
	"slices"
	"testing"

	"millrace/test/harness"
)

type nothing struct{}

func (nothing) Close() error { return nil }

// TestEachLife plays a client through three lives: it breaks when the first ends, breaks
// for no reason in the second, and has nothing more to do in the third.
func TestEachLife(t *testing.T) {
	t.Parallel()
	s := NewStage()
	var complaints []string
	var lives []int
	connected, done := make(chan struct{}), make(chan struct{})
	dial := func(*Life) (nothing, error) { return nothing{}, nil }
	go func() {
		defer close(done)
		EachLife(s, dial, func(_ int, what string) { complaints = append(complaints, what) },
			func(l *Life, _ nothing) error {
				lives = append(lives, l.Number)
				connected <- struct{}{}
				switch l.Number {
				case 1:
					<-l.Ending
					return ErrLifeOver
				case 2:
					return io.ErrUnexpectedEOF
				default:
					return ErrNoMore
				}
			})
	}()
	first := s.Begin(1, &harness.Server{}, false)
	<-connected
	close(first.Ending)
	for number := 2; number <= 3; number++ {
		s.Begin(number, &harness.Server{}, number == 3)
		<-connected
	}
	<-done
	if !slices.Equal(lives, []int{1, 2, 3}) {
		t.Errorf("the client lived in %v", lives)
	}
	if len(complaints) != 1 || complaints[0] != "life 2: a client failed while the server was alive: unexpected EOF" {
		t.Errorf("complaints: %q", complaints)
	}
	if len(s.Ready()) != 3 || s.After(2).Number != 3 {
		t.Errorf("%d starts, and the last life is %d", len(s.Ready()), s.After(2).Number)
	}
}

// A client that fails in the last life, which nobody ends, complains and does not try for ever.
func TestEachLifeEndsWithTheLast(t *testing.T) {
	t.Parallel()
	s := NewStage()
	s.Begin(1, &harness.Server{}, true)
	complaints := 0
	EachLife(s, func(*Life) (nothing, error) { return nothing{}, errors.New("refused") },
		func(int, string) { complaints++ },
		func(*Life, nothing) error { return ErrNoMore })
	if complaints != 1 {
		t.Errorf("%d complaints", complaints)
	}
}

// In a storm a client that loses its connection makes another, and complains of nothing.
func TestEachLifeInStorm(t *testing.T) {
	t.Parallel()
	s := NewStage()
	storm := s.BeginStorm(1, []*harness.Server{{}})
	var complaints []string
	tries := 0
	EachLife(s, func(*Life) (nothing, error) { return nothing{}, nil },
		func(_ int, what string) { complaints = append(complaints, what) },
		func(l *Life, _ nothing) error {
			if !l.Stormy {
				return ErrNoMore
			}
			if !l.Unsteady() {
				t.Error("a storm is steady")
			}
			if tries++; tries == 3 {
				close(storm.Ending)
				s.BeginCluster(2, []*harness.Server{{}}, 0, true)
			}
			return io.ErrUnexpectedEOF
		})
	if tries != 3 || len(complaints) > 0 {
		t.Errorf("%d tries in the storm, complaints: %q", tries, complaints)
	}
	if len(s.Ready()) != 1 {
		t.Errorf("%d starts: a storm is none", len(s.Ready()))
	}
}
