package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"millrace/internal/api"
	"millrace/internal/apiclient"
	"millrace/internal/config"
	"millrace/internal/job"
)

const (
	fetchWait       = 30 * time.Second // of one request; then the next asks
	fetchRetryFirst = time.Second      // after an error, doubled each time
	fetchRetryMax   = 30 * time.Second
	failPause       = time.Second // after a failure that is to be tried again at once
)

// worker fetches jobs and runs a command for each.
type worker struct {
	p           Process
	api         *apiFlags
	client      *apiclient.Client
	namespace   *string
	queues      []string
	exec        string
	lease       time.Duration
	timeout     time.Duration
	concurrency int
	count       int64
	once        bool
	untilEmpty  bool
	result      bool
	quiet       bool
	name        string // what people see of who holds a job

	stdout, stderr io.Writer

	left   atomic.Int64 // jobs to take, if there is a bound
	done   atomic.Int64
	failed atomic.Int64 // and lost ones

	mu sync.Mutex // one line at a time
}

func newFetchCommand(p Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fetch QUEUE... --exec COMMAND",
		Short: "Work on jobs with a command of the shell",
		Long: `Fetch jobs from queues, from the first that has one, and run a command of the shell for each. The
command has the body of the job on its standard input, and the rest of the job in variables that begin
with ` + config.JobVariablePrefix + `: ID, NAMESPACE, QUEUE, TYPE, KEY, GROUP, PRIORITY, TRY (1 the first time),
FAILS, CREATED and BODY_KIND.

If the command ends with status 0, the job is acked. Otherwise the job has failed, with the end of
the command's standard error as its error, and is retried as its push has said. While the command
runs, the lease is extended. If the lease is lost all the same, or after --timeout, the command and
its child processes are killed.

After SIGTERM or Ctrl-C no more jobs are fetched, and those that run are waited for. A second signal
ends them and gives their jobs back. If the server is away for a while, the command waits for it.

Besides the usual exit statuses: with --once, --count or --until-empty it is 1 if a job has failed,
and 4 if there was nothing to do.`,
		Example: `  millrace fetch mails --exec 'jq -r .to | xargs -n 1 ./send-mail'
  millrace fetch urgent reports --exec './report.sh "$MILLRACE_JOB_TYPE"' --concurrency 4
  millrace fetch mails --exec cat --once
  millrace fetch mails --exec ./work --until-empty --timeout 5m`,
		Args: atLeastOne("the name of a queue"),
	}
	w := &worker{p: p}
	w.namespace = addNamespace(cmd, namespaceDefault, "namespace of the queues")
	flags := cmd.Flags()
	flags.StringVarP(&w.exec, "exec", "e", "", "command to run for each job, by /bin/sh")
	flags.IntVarP(&w.concurrency, "concurrency", "j", 1, "commands that run at a time")
	flags.Int64Var(&w.count, "count", 0, "end after this many jobs; 0 is never")
	flags.BoolVar(&w.once, "once", false, "end after one job")
	flags.BoolVar(&w.untilEmpty, "until-empty", false, "end when no job is ready")
	flags.DurationVar(&w.lease, "lease", time.Minute,
		"how long the server waits for a sign of life before it gives a job to another worker")
	flags.DurationVar(&w.timeout, "timeout", 0, "fail a job whose command runs longer than this; 0 is no limit")
	flags.BoolVar(&w.result, "result", false,
		"what the command prints is the result of the job, which is kept if the job is")
	flags.BoolVar(&w.quiet, "quiet", false, "print no line for each job")
	w.api = addAPI(cmd, p)
	flags.Lookup("json").Usage = "print a line of JSON for each job, on standard error"
	cmd.ValidArgsFunction = w.api.completeQueues(w.namespace)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		w.queues, w.stdout, w.stderr = args, cmd.OutOrStdout(), cmd.ErrOrStderr()
		w.name = workerName()
		if err := w.check(); err != nil {
			return err
		}
		var err error
		if w.client, err = w.api.client(); err != nil {
			return err
		}
		defer w.client.Close()
		// A wrong address or password should be told at once, not waited for.
		if _, err := w.client.Server(cmd.Context()); err != nil {
			return apiError(err)
		}
		return w.run(cmd.Context())
	}
	return cmd
}

// workerName tells where a worker runs.
func workerName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("millrace fetch on %s, process %d", host, os.Getpid())
}

func (w *worker) check() error {
	switch {
	case w.exec == "":
		return errors.New("--exec: name the command to run for each job, such as --exec ./work.sh")
	case w.concurrency < 1 || w.concurrency > 1000:
		return errors.New("--concurrency: choose 1 to 1000")
	case w.lease < 3*time.Second || w.lease > 24*time.Hour:
		return errors.New("--lease: choose 3s to 24h")
	case w.timeout < 0:
		return errors.New("--timeout: choose a time such as 5m, or 0 for no bound")
	case w.count < 0:
		return errors.New("--count: choose how many jobs, or 0 for no bound")
	case w.once && w.count > 1:
		return errors.New("--once and --count: choose one of them")
	}
	if w.once {
		w.count = 1
	}
	if w.count > 0 {
		w.concurrency = int(min(int64(w.concurrency), w.count))
	}
	w.left.Store(w.count)
	return nil
}

// run works until there is nothing left to do or a signal ends it.
func (w *worker) run(ctx context.Context) error {
	fetching, stopFetching := context.WithCancel(ctx)
	defer stopFetching()
	running, stopRunning := context.WithCancel(ctx)
	defer stopRunning()
	signals := w.p.Signals
	if signals == nil {
		own := make(chan os.Signal, 2)
		signal.Notify(own, syscall.SIGINT, syscall.SIGTERM)
		defer signal.Stop(own)
		signals = own
	}
	ended := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		for _, stop := range []context.CancelFunc{stopFetching, stopRunning} {
			select {
			case <-signals:
				stop()
			case <-ended:
				return
			}
		}
	})
	errs := make([]error, w.concurrency)
	var hands sync.WaitGroup
	for i := range errs {
		hands.Go(func() {
			if errs[i] = w.hand(fetching, running); errs[i] != nil {
				stopFetching() // the others would meet the same
			}
		})
	}
	hands.Wait()
	close(ended)
	watching.Wait()
	for _, err := range errs {
		if err != nil {
			return apiError(err)
		}
	}
	if w.untilEmpty && fetching.Err() == nil {
		w.sayHeld(ctx)
	}
	return w.verdict(fetching.Err() != nil)
}

// sayHeld says why jobs are left that are ready and that nobody is given.
func (w *worker) sayHeld(ctx context.Context) {
	for _, name := range w.queues {
		q, err := w.client.Queue(ctx, *w.namespace, name)
		ready := q.Counts[job.Ready.Name()]
		switch {
		case err != nil || ready == 0: // it is not there, or empty
		case q.Paused:
			w.say("%s has %s that nobody is given: it is paused. \"millrace queue resume %[1]s\" ends that.\n",
				printable(name), plural(ready, "ready job"))
		case q.Limits != nil:
			w.say("%s has %s, held back by its limits: %s.\n", printable(name), plural(ready, "ready job"),
				showLimits(&q.Limits.Limits))
		}
	}
}

// verdict tells how a worker that was to end has ended.
func (w *worker) verdict(interrupted bool) error {
	switch done, failed := w.done.Load(), w.failed.Load(); {
	case w.count == 0 && !w.untilEmpty:
		return nil
	case failed > 0:
		return fail(fmt.Errorf("%d of %s failed", failed, plural(int(done+failed), "job")))
	case done == 0 && !interrupted:
		return &failure{exitNotFound, errors.New("there was no job to fetch")}
	}
	return nil
}

// hand fetches one job after the other and works on it.
func (w *worker) hand(fetching, running context.Context) error {
	holder, pause := "", fetchRetryFirst
	for fetching.Err() == nil {
		if w.count > 0 && w.left.Add(-1) < 0 {
			return nil
		}
		o := api.FetchOptions{
			Namespace: *w.namespace, Queues: w.queues, Max: 1, Wait: fetchWait, Lease: w.lease,
			Holder: holder, Worker: w.name,
		}
		if w.untilEmpty {
			o.Wait = 0
		}
		work, err := w.client.Fetch(fetching, o)
		switch {
		case err != nil && !passing(err):
			return unlessEnded(fetching, err)
		case err != nil:
			w.left.Add(1)
			w.say("%s; asking again in %s\n", err, pause)
			if !sleep(fetching, pause) {
				return nil
			}
			pause = min(2*pause, fetchRetryMax)
			continue
		}
		holder, pause = work.Holder, fetchRetryFirst
		if len(work.Jobs) == 0 {
			w.left.Add(1)
			if w.untilEmpty {
				return nil
			}
			continue
		}
		for i := range work.Jobs {
			if again := w.work(running, holder, &work.Jobs[i]); again && !sleep(fetching, failPause) {
				return nil
			}
		}
	}
	return nil
}

// unlessEnded drops an error that only tells that a wait was given up: a job that was on its way goes back.
func unlessEnded(ctx context.Context, err error) error {
	if !isDone(ctx) {
		return err
	}
	return nil
}

func isDone(ctx context.Context) bool { return ctx.Err() != nil }

// passing reports whether an error may be gone after a while.
func passing(err error) bool {
	if _, ok := errors.AsType[*apiclient.Unreachable](err); ok {
		return true
	}
	p, ok := errors.AsType[*api.Problem](err)
	return ok && (p.Status >= 500 || p.Status == 429)
}

// sleep waits; it reports false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// say prints a line.
func (w *worker) say(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, _ = fmt.Fprintf(w.stderr, format, args...) // nobody to tell
}
