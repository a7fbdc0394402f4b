package hook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"millrace/internal/engine"
	"millrace/internal/job"
)

const (
	// atOnce is how many calls are made at a time, all URLs together.
	atOnce = 8
	// patience bounds one call, lease how long a call that was lost with its server is held.
	patience = 10 * time.Second
	lease    = time.Minute
	// pause is how long a sender waits that the engine has refused.
	pause = time.Second
	// answerMax is how much of an answer is read, so that its connection can be used again.
	answerMax = 16 << 10
)

// Options are what a sender needs.
type Options struct {
	Engine  *engine.Engine
	Secrets [][]byte       // at least one
	Allow   []netip.Prefix // addresses that may be called although they are private
	Door    job.Door
	Version string
	Logger  *slog.Logger
}

// Sender makes the calls that wait in the queue.
type Sender struct {
	o            Options
	client       *http.Client
	sent, failed atomic.Uint64
	told         atomic.Bool // that calls fail, since the last that did not
}

// New returns a sender; nothing runs yet.
func New(o Options) *Sender {
	dialer := &net.Dialer{Timeout: patience, Control: func(_, address string, _ syscall.RawConn) error {
		return checkAddress(address, o.Allow)
	}}
	return &Sender{o: o, client: &http.Client{
		Timeout: patience,
		// A redirect is an answer like any other that is no success: what was signed is for this URL.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: dialer.DialContext, ForceAttemptHTTP2: true, MaxIdleConns: atOnce,
			IdleConnTimeout:        time.Minute,
			MaxResponseHeaderBytes: answerMax, // and no proxy, behind which the address could not be checked
		},
	}}
}

// Sent returns how many calls were answered with success, and how many were not.
func (s *Sender) Sent() (sent, failed uint64) { return s.sent.Load(), s.failed.Load() }

// Run makes calls until ctx ends.
func (s *Sender) Run(ctx context.Context) {
	defer s.client.CloseIdleConnections()
	var running sync.WaitGroup
	for range atOnce {
		running.Go(func() { s.work(ctx) })
	}
	running.Wait()
}

// work makes one call after the other.
func (s *Sender) work(ctx context.Context) {
	caller, holder := s.o.Engine.NewCallerAt(s.o.Door), s.o.Engine.NewHolder()
	fetch := &job.Fetch{
		Namespace: Namespace, Queues: []string{Queue}, Max: 1, Wait: job.WaitForever, Holder: holder, Exclusive: true,
		OnEnd: job.EndRelease, Door: s.o.Door, Lease: lease, LeaseSet: true,
	}
	for ctx.Err() == nil {
		result := caller.Do(ctx, fetch)[0]
		if result.Err != nil || len(result.Jobs) == 0 { // the server is stopping, or has too many who wait
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
			continue
		}
		j := result.Jobs[0]
		caller.Do(context.WithoutCancel(ctx), s.settle(ctx, &j, holder))
	}
}

// settle makes a call and returns what is to become of its job.
func (s *Sender) settle(ctx context.Context, j *job.Job, holder job.Holder) job.Command {
	if !j.Flags.Has(job.FlagHook) {
		// Somebody has pushed it who may not have calls made.
		return &job.Delete{Ref: j.Ref(), By: holder, Need: job.NeedHeld}
	}
	err := s.call(ctx, j)
	switch {
	case err == nil:
		s.sent.Add(1)
		s.told.Store(false)
		return &job.Ack{Ref: j.Ref(), By: holder, Need: job.NeedHeld}
	case ctx.Err() != nil: // it was cut off: the next server makes it again
		return &job.Return{Refs: []job.Ref{j.Ref()}, By: holder}
	}
	s.failed.Add(1)
	if !s.told.Swap(true) {
		s.o.Logger.Warn("hook: a call failed and is tried again later; until one succeeds, further "+
			"failures are only counted",
			slog.String("url", string(j.Extra)), slog.Any("error", err))
	}
	return &job.Fail{
		Ref: j.Ref(), By: holder, Need: job.NeedHeld,
		Failure: job.Failure{Type: "HookFailed", Message: err.Error()},
	}
}

// call makes a call. Everything but an answer that tells of success is an error.
func (s *Sender) call(ctx context.Context, j *job.Job) error {
	to := string(j.Extra)
	if err := CheckURL(to); err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(j.Body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "millrace/"+s.o.Version)
	sign(r.Header, s.o.Secrets, callID(j), time.Now(), j.Body)
	answer, err := s.client.Do(r)
	if err != nil {
		if inner := errors.Unwrap(err); inner != nil { // without the URL, which is known
			err = inner
		}
		return err
	}
	defer answer.Body.Close()                                          //nolint:errcheck // only read from
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, answerMax)) // only so that the connection can be used again
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		return fmt.Errorf("the answer was %s", answer.Status)
	}
	return nil
}

// callID names a death: the job that has died and the job that tells of it, which is another one for each death. It is
// the same whenever a call is repeated.
func callID(j *job.Job) string {
	var dead struct {
		ID job.ID `json:"id"`
	}
	_ = json.Unmarshal(j.Body, &dead) // it is our own
	return fmt.Sprintf("%d.%d", dead.ID, j.ID)
}
