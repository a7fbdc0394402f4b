package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"millrace/internal/api"
	"millrace/internal/config"
)

const (
	tailMax     = 8 << 10 // bytes of standard error that become the error of a job
	tailLines   = 50      // and lines
	resultMax   = 1 << 20 // bytes of a result
	killGrace   = 10 * time.Second
	outputGrace = time.Second // for what a command has started and left behind
	settleRetry = 500 * time.Millisecond
)

// workOutcome is how the work on a job has ended.
type workOutcome struct {
	ID      uint64  `json:"id"`
	Queue   string  `json:"queue"`
	Outcome string  `json:"outcome"` // done, failed, lost or released
	State   string  `json:"state,omitempty"`
	Error   string  `json:"error,omitempty"`
	Seconds float64 `json:"seconds"`
}

// work runs the command for a job and settles it. It reports whether the job has failed and is ready again, as those of
// protocols that know no delays are: what always fails should not keep us busy.
func (w *worker) work(ctx context.Context, holder string, j *api.WorkJob) (again bool) {
	t := &task{
		w: w, job: j, at: api.Held{Namespace: j.Namespace, Queue: j.Queue, ID: j.ID, Holder: holder},
		until: time.Now().Add(w.lease), tail: tail{max: tailMax},
	}
	began := time.Now()
	failure := t.run(ctx)
	out := workOutcome{ID: uint64(j.ID), Queue: j.Queue, Seconds: time.Since(began).Seconds()}
	var err error
	var settled api.Settled
	switch {
	case t.lost != nil:
		out.Outcome, err = "lost", t.lost
	case ctx.Err() != nil && failure != nil: // it was ended, and did not fail by itself
		out.Outcome = "released"
		settled, err = t.settle(func(ctx context.Context) (api.Settled, error) {
			return w.client.Release(ctx, t.at, 0)
		})
	case failure != nil:
		out.Outcome, out.Error = "failed", failure.Type+": "+failure.Message
		settled, err = t.settle(func(ctx context.Context) (api.Settled, error) {
			return w.client.Fail(ctx, t.at, *failure)
		})
	default:
		out.Outcome = "done"
		settled, err = t.settle(func(ctx context.Context) (api.Settled, error) {
			return w.client.Ack(ctx, t.at, t.result.Bytes())
		})
	}
	out.State = settled.State
	if err != nil {
		out.Outcome, out.Error = "lost", apiError(err).Error()
	}
	if out.Outcome == "done" {
		w.done.Add(1)
	} else {
		w.failed.Add(1)
	}
	w.tell(&out)
	return out.Outcome == "failed" && out.State == "ready"
}

// tell prints how the work on a job has ended.
func (w *worker) tell(out *workOutcome) {
	if w.api.asJSON {
		w.mu.Lock()
		defer w.mu.Unlock()
		_ = printLine(w.stderr, out) // nobody to tell
		return
	}
	if w.quiet {
		return
	}
	text := fmt.Sprintf("job %d of %s %s after %.1fs", out.ID, printable(out.Queue), out.Outcome, out.Seconds)
	if out.Error != "" {
		text += ": " + shorten(out.Error, 200)
	}
	if out.Outcome == "failed" {
		text += "; it is " + out.State + " now"
	}
	w.say("%s\n", text)
}

// task is the work on one job.
type task struct {
	w      *worker
	job    *api.WorkJob
	at     api.Held
	until  time.Time // when the lease ends
	tail   tail
	result bytes.Buffer
	lost   error // the lease is another's
}

// environ is what the command finds in its environment.
func (t *task) environ() []string {
	j := t.job
	env := append([]string{}, t.w.p.Environ...)
	for _, v := range []struct{ name, text string }{
		{"ID", count(j.ID)},
		{"NAMESPACE", j.Namespace},
		{"QUEUE", j.Queue},
		{"TYPE", j.Type},
		{"KEY", j.Key},
		{"GROUP", j.Group},
		{"PRIORITY", strconv.FormatInt(j.Priority, 10)},
		{"TRY", count(j.Attempts)},
		{"FAILS", count(j.Fails)},
		{"BODY_KIND", j.BodyKind},
	} {
		env = append(env, config.JobVariablePrefix+v.name+"="+strings.ReplaceAll(v.text, "\x00", ""))
	}
	if j.Created != nil {
		env = append(env, config.JobVariablePrefix+"CREATED="+j.Created.Format(time.RFC3339Nano))
	}
	return env
}

// run runs the command and keeps the lease meanwhile. It returns how the command failed; nil if it did not.
func (t *task) run(ctx context.Context) *api.Failed {
	cmd := shellCommand(t.w.exec)
	cmd.Env = t.environ()
	cmd.Stdout, cmd.Stderr = t.w.stdout, io.MultiWriter(&lockedWriter{&t.w.mu, t.w.stderr}, &t.tail)
	if t.w.result {
		cmd.Stdout = &limited{w: &t.result, left: resultMax}
	}
	cmd.Stdin = bytes.NewReader(nil)
	if t.job.Body != nil {
		cmd.Stdin = bytes.NewReader(t.job.Body.Base64)
	}
	cmd.WaitDelay = outputGrace
	if err := cmd.Start(); err != nil {
		return &api.Failed{Type: "start", Message: err.Error()}
	}
	started, err := processesOf(cmd)
	if err != nil {
		_ = cmd.Process.Kill() // it could not be ended with all that it starts
		_ = cmd.Wait()
		return &api.Failed{Type: "start", Message: err.Error()}
	}
	defer started.release()
	ended := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		if errors.Is(err, exec.ErrWaitDelay) {
			err = nil // it has ended well, but something that it has started holds on to its output
		}
		ended <- err
	}()
	err, timedOut := t.guard(ctx, started, ended)
	switch {
	case timedOut:
		f := t.failure("timeout")
		if f.Message == silent {
			f.Message = "it said nothing"
		}
		f.Message = "it ran longer than " + t.w.timeout.String() + ": " + f.Message
		return f
	case err != nil:
		return t.failure(err.Error())
	}
	return nil
}

// guard extends the lease until the command has ended, and ends it if that is not possible any more.
func (t *task) guard(ctx context.Context, cmd processes, ended <-chan error) (err error, timedOut bool) {
	tick := time.NewTicker(t.w.lease / 3)
	defer tick.Stop()
	var late <-chan time.Time
	if t.w.timeout > 0 {
		timer := time.NewTimer(t.w.timeout)
		defer timer.Stop()
		late = timer.C
	}
	for {
		select {
		case err := <-ended:
			return err, false
		case <-ctx.Done():
			return t.end(cmd, ended), false
		case <-late:
			return t.end(cmd, ended), true
		case <-tick.C:
			if t.lost = t.extend(ctx); t.lost != nil {
				return t.end(cmd, ended), false
			}
		}
	}
}

// extend tells the server that the job is worked on. An error means that it is not ours any more.
func (t *task) extend(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.w.lease/3)
	defer cancel()
	_, err := t.w.client.Extend(ctx, t.at, t.w.lease)
	switch {
	case err == nil:
		t.until = time.Now().Add(t.w.lease)
		return nil
	case passing(err) || errors.Is(err, context.DeadlineExceeded):
		if time.Now().Before(t.until) {
			return nil
		}
		return fmt.Errorf("the lease has ended: %w", err)
	default:
		return err
	}
}

// end ends the command and all that it has started.
func (t *task) end(cmd processes, ended <-chan error) error {
	cmd.ask()
	grace := time.NewTimer(killGrace)
	defer grace.Stop()
	select {
	case err := <-ended:
		cmd.kill() // what has not listened
		if err == nil {
			err = errors.New("ended")
		}
		return err
	case <-grace.C:
		cmd.kill()
		return <-ended
	}
}

// silent is the message of a command that has not said what is wrong.
const silent = "the command said nothing on its standard error"

// failure describes how the command failed by the end of what it has said.
func (t *task) failure(kind string) *api.Failed {
	lines := strings.Split(strings.TrimSpace(t.tail.text()), "\n")
	lines = lines[max(0, len(lines)-tailLines):]
	f := &api.Failed{Type: kind, Message: lines[len(lines)-1]}
	if f.Message == "" {
		f.Message = silent
	}
	if len(lines) > 1 {
		f.Backtrace = lines
	}
	return f
}

// settle tells the server how it went, again and again until the lease ends. A job that is not there after an attempt
// of which nothing is known was settled by that.
func (t *task) settle(tell func(context.Context) (api.Settled, error)) (api.Settled, error) {
	for attempt := 0; ; attempt++ {
		ctx, cancel := context.WithTimeout(context.Background(), t.w.lease)
		s, err := tell(ctx)
		cancel()
		p, refused := errors.AsType[*api.Problem](err)
		switch {
		case err == nil:
			return s, nil
		case attempt > 0 && refused && p.Status == http.StatusNotFound:
			return api.Settled{ID: t.job.ID, State: "gone"}, nil
		case !passing(err) || time.Now().After(t.until):
			return s, err
		}
		_ = sleep(context.Background(), min(settleRetry<<min(attempt, 6), fetchRetryMax))
	}
}

// tail keeps the end of what is written to it.
type tail struct {
	mu  sync.Mutex // guards b
	b   []byte
	max int
}

// Write keeps the end.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if extra := len(t.b) - t.max; extra > 0 {
		t.b = append(t.b[:0], t.b[extra:]...)
	}
	return len(p), nil
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(string(t.b), "?")
}

// limited passes on the first bytes and drops the rest.
type limited struct {
	w    io.Writer
	left int
}

// Write passes on what there is room for.
func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), l.left)
	l.left -= n
	if _, err := l.w.Write(p[:n]); err != nil {
		return 0, err
	}
	return len(p), nil
}

// lockedWriter writes one piece at a time.
type lockedWriter struct {
	mu *sync.Mutex
	w  io.Writer
}

// Write writes one piece.
func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
