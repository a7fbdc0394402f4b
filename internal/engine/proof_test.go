package engine_test

import (
	"errors"
	"testing"

	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/store/memstore"
)

// shared is a store that several nodes have. It answers when the test says so.
type shared struct {
	*memstore.Store

	rounds []func(error)
}

func (s *shared) Confirm(done func(error)) { s.rounds = append(s.rounds, done) }

func (s *shared) end(err error) {
	done := s.rounds[0]
	s.rounds = s.rounds[1:]
	done(err)
}

func openShared(t *testing.T) (engine.Stepped, *shared) {
	t.Helper()
	s := &shared{Store: memstore.New()}
	e, err := engine.OpenStepped(engine.Options{Store: s})
	if err != nil {
		t.Fatal(err)
	}
	return e, s
}

// asks submits a command that changes nothing and returns how it is answered; nil: not yet.
func asks(e engine.Stepped) *[]*job.Error {
	var got []*job.Error
	e.Submit(&engine.Request{
		Commands: []job.Command{&job.Ack{Ref: job.ByID("n", "q", 1)}},
		Done: func(r *engine.Request) {
			got = append(got, r.Results[0].Err)
		},
	})
	return &got
}

func answeredWith(t *testing.T, got *[]*job.Error, kind job.Kind) {
	t.Helper()
	if len(*got) != 1 || (*got)[0].Kind != kind {
		t.Errorf("answers %v, want one of kind %d", *got, kind)
	}
}

// Those who come during a round wait for the next one.
func TestProofRounds(t *testing.T) {
	t.Parallel()
	e, s := openShared(t)
	first := asks(e)
	second := asks(e)
	if len(*first) > 0 || len(s.rounds) != 1 {
		t.Fatalf("answers %v, %d rounds", *first, len(s.rounds))
	}
	s.end(nil)
	answeredWith(t, first, job.NotFound)
	if len(*second) > 0 {
		t.Error("a round has proven something for who came during it")
	}
	s.end(nil)
	answeredWith(t, second, job.NotFound)
}

func TestProofFails(t *testing.T) {
	t.Parallel()
	e, s := openShared(t)
	first, second := asks(e), asks(e)
	s.end(errors.New("not the leader"))
	e.GiveUp()
	answeredWith(t, first, job.Internal)
	answeredWith(t, second, job.Internal)
}

// A round that never ends holds nobody up when the engine is abandoned, and says nothing if it ends after all.
func TestProofNeverComes(t *testing.T) {
	t.Parallel()
	e, s := openShared(t)
	first, second := asks(e), asks(e)
	e.Abandon(errors.New("not the leader"))
	e.GiveUp()
	answeredWith(t, first, job.Internal)
	answeredWith(t, second, job.Internal)
	s.end(nil)
	answeredWith(t, first, job.Internal)
}
