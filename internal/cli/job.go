package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/internal/api"
	"millrace/internal/apiclient"
)

func newJobCommand(p Process) *cobra.Command {
	cmd := group("job", "Find, show, retry, move and delete jobs of a running server",
		`  millrace job ls --state dead --error timeout
  millrace job get 17
  millrace job retry 17
  millrace job retry --all-matching --queue mails --state dead`, newJobList(p), newJobGet(p))
	cmd.Long = `Find, show, retry, move and delete jobs of a running server. Which of these do I want?

  run it again     retry    it failed: retrying, failed or dead; its attempts go on counting
                   respawn  it is dead or failed: as if it were new
                   run      it is scheduled: now instead of later
                   kick     it was buried
  stop it          bury     set it aside until it is kicked
                   kill     give up on it; it is dead, and kept
                   cancel   delete it if it has not come to an end
                   rm       delete it in any state
  elsewhere        move     to another queue`
	for _, a := range jobActions {
		cmd.AddCommand(newJobAction(p, a))
	}
	return cmd
}

// filterFlags are the flags that say which jobs are meant.
type filterFlags struct {
	api.Filter
	after, before string
}

// addFilter gives a command flags for a filter.
func addFilter(cmd *cobra.Command) *filterFlags {
	f := new(filterFlags)
	flags := cmd.Flags()
	flags.StringVarP(&f.Namespace, "namespace", "n", "", "only this namespace")
	flags.StringVarP(&f.Queue, "queue", "q", "", "only this queue")
	flags.StringSliceVarP(&f.States, "state", "s", nil, "only these states: "+stateList())
	flags.StringVar(&f.Type, "type", "", "only this type")
	flags.StringVar(&f.Error, "error", "", "substring of the error (case-insensitive)")
	flags.StringVar(&f.Body, "body", "", "substring of the body (case-sensitive)")
	flags.Uint64Var(&f.Batch, "batch", 0, "only this batch")
	flags.StringVar(&f.Holder, "holder", "",
		"only running jobs of this holder, as a lease and \"worker ls --json\" show it")
	flags.StringVar(&f.after, "after", "", "not before this time: 2006-01-02T15:04:05Z, or 2h for two hours ago")
	flags.StringVar(&f.before, "before", "", "before this time")
	flags.StringVar(&f.Time, "time", "", "the time that --after and --before mean: created, since (when it entered "+
		"its state) or run_at")
	completes(cmd, "state", api.StateNames())
	completes(cmd, "time", []string{"created", "since", "run_at"})
	return f
}

// filter checks the times.
func (f *filterFlags) filter() (api.Filter, error) {
	var err error
	if f.After, err = moment("--after", f.after, false); err != nil {
		return f.Filter, err
	}
	f.Before, err = moment("--before", f.before, false)
	return f.Filter, err
}

// moment reads a time, or how far it is ahead of now or behind. An empty text is none.
func moment(flag, text string, ahead bool) (*time.Time, error) {
	if text == "" {
		return nil, nil
	}
	if d, err := time.ParseDuration(text); err == nil {
		if !ahead {
			d = -d
		}
		t := time.Now().Add(d).UTC()
		return &t, nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return nil, fmt.Errorf("%s: %q is no time: write for example 2006-01-02T15:04:05Z or 2h", flag, text)
	}
	t = t.UTC()
	return &t, nil
}

// empty reports whether every job is meant.
func (f *filterFlags) empty() bool { return len(f.Query()) == 0 }

func newJobList(p Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls [REF]",
		Aliases: []string{"list"},
		Short:   "List the jobs that fit a filter",
		Long: `List jobs of every state, by namespace, queue and state. Everything that is given must fit. REF is
the id of a job, in our own form or in that of a protocol, or its key. With --json each job is one
line.`,
		Example: `  millrace job ls --state retrying,dead --error timeout
  millrace job ls --queue mails --body ann@example.org
  millrace job ls --state running
  millrace job ls --state dead --time since --after 1h --limit 0 --json > dead.jsonl`,
		Args: atMostOne("the id or key of a job"),
	}
	filters := addFilter(cmd)
	limit := cmd.Flags().Int("limit", 50, "jobs at most; 0 is all")
	f := addAPI(cmd, p)
	must(cmd.RegisterFlagCompletionFunc("queue", f.completeQueues(&filters.Namespace)))
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		filter, err := filters.filter()
		if err != nil {
			return err
		}
		if len(args) > 0 {
			filter.Ref = args[0]
		}
		if *limit < 0 {
			return errors.New("--limit: choose how many jobs, or 0 for all")
		}
		ctx, stop := p.interruptible(cmd.Context())
		defer stop()
		bar := newProgress(cmd.ErrOrStderr())
		list := lister[api.JobRow]{
			header: []string{
				"ID", "NAMESPACE", "QUEUE", "STATE", "SINCE", "DUE", "ATTEMPTS", "FAILURES", "TYPE", "WHAT",
			},
			empty: "No job fits.", limit: *limit, bar: bar, row: jobCells,
			fetch: func(ctx context.Context, c *apiclient.Client, page api.PageOf) ([]api.JobRow, string, error) {
				got, err := c.Jobs(ctx, filter, page)
				if err == nil && got.Next != "" {
					bar.update("searching", got.Progress.Examined, max(got.Progress.Total, got.Progress.Examined+1))
				}
				return got.Jobs, got.Next, err
			},
		}
		return f.ask(func(c *apiclient.Client) error { return list.print(ctx, cmd, c, f.asJSON) })
	}
	return cmd
}

// whatWidth is how much a list shows of an error or a body.
const whatWidth = 60

func jobCells(j *api.JobRow) []string {
	what, due := j.Preview, ""
	if j.LastError != nil {
		what = j.LastError.Type + ": " + j.LastError.Message
	}
	if j.State == "scheduled" || j.State == "retrying" {
		due = since(j.RunAt)
	}
	return []string{
		count(j.ID), j.Namespace, j.Queue, j.State, since(j.Since), due, count(j.Attempts), count(j.Fails), j.Type,
		shorten(what, whatWidth),
	}
}

// locate finds the one job that a reference names.
func locate(ctx context.Context, c *apiclient.Client, namespace, ref string) (api.JobRow, error) {
	var jobs []api.JobRow
	for at, more := (api.PageOf{}), true; more; more = at.Cursor != "" { // a page may be empty, and not the last
		page, err := c.Jobs(ctx, api.Filter{Namespace: namespace, Ref: ref}, at)
		if err != nil {
			return api.JobRow{}, err
		}
		jobs, at.Cursor = append(jobs, page.Jobs...), page.Next
	}
	switch len(jobs) {
	case 0:
		return api.JobRow{}, &failure{
			exitNotFound,
			fmt.Errorf("there is no job %q: it may have been acked, deleted or have expired", ref),
		}
	case 1:
		return jobs[0], nil
	}
	names := make([]string, 0, len(jobs))
	for i := range jobs {
		names = append(names, jobs[i].Namespace)
	}
	return api.JobRow{}, fmt.Errorf("several jobs are called %q: name the namespace, one of %s, with --namespace", ref,
		strings.Join(names, ", "))
}

func newJobGet(p Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "get REF",
		Aliases: []string{"show"},
		Short:   "Show everything about a job",
		Long:    `Show everything about a job. REF is its id, in our own form or in that of a protocol, or its key.`,
		Example: `  millrace job get 17
  millrace job get 17 --body | jq .
  millrace job get 17 --json | jq .failures`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("%q takes the id or key of one job, but got %d arguments", cmd.CommandPath(),
					len(args))
			}
			return nil
		},
	}
	namespace := addNamespace(cmd, "", "namespace of the job, if there are several of that name")
	body := cmd.Flags().Bool("body", false, "print only its body, as it was pushed")
	return asking(p, cmd, func(cmd *cobra.Command, c *apiclient.Client, asJSON bool, args []string) error {
		row, err := locate(cmd.Context(), c, *namespace, args[0])
		if err != nil {
			return err
		}
		if *body {
			r, err := c.Body(cmd.Context(), row.Namespace, row.Queue, row.ID)
			if err != nil {
				return err
			}
			defer func() { _ = r.Close() }()
			_, err = io.Copy(cmd.OutOrStdout(), r)
			return fail(err)
		}
		d, err := c.Job(cmd.Context(), row.Namespace, row.Queue, row.ID)
		if err != nil {
			return err
		}
		if asJSON {
			return fail(printJSON(cmd.OutOrStdout(), d))
		}
		return fail(printJob(cmd.OutOrStdout(), &d))
	})
}

// bodyShown is how much of a body "job get" shows.
const bodyShown = 2000

func printJob(w io.Writer, d *api.JobDetail) error {
	t := newTable(w)
	show := func(name, text string) {
		if text != "" {
			t.row(name, text)
		}
	}
	at := func(when *time.Time) string {
		if when == nil {
			return ""
		}
		return when.Format(time.RFC3339) + " (" + since(when) + ")"
	}
	some := func(n uint32) string {
		if n == 0 {
			return ""
		}
		return count(n)
	}
	show("id", count(d.ID))
	show("queue", d.Queue+" in namespace "+d.Namespace)
	show("state", d.State)
	show("since", at(d.Since))
	show("type", d.Type)
	show("key", d.Key)
	show("group", d.Group)
	show("pushed by", d.PushedBy)
	show("created", at(d.Created))
	show("run at", at(d.RunAt))
	show("expires", at(d.ExpireAt))
	show("priority", strconv.FormatInt(d.Priority, 10))
	show("attempts", some(d.Attempts))
	show("failures", some(d.Fails))
	show("lapses", some(d.Lapses))
	show("releases", some(d.Releases))
	show("buries", some(d.Buries))
	show("kicks", some(d.Kicks))
	if d.Lease != nil {
		show("held by", d.Lease.Holder+" "+d.Lease.Worker+" through "+d.Lease.FetchedBy)
		show("lease ends", at(d.Lease.Until))
	}
	if len(d.BlockedBy) > 0 {
		show("waits for", strings.Trim(fmt.Sprint(d.BlockedBy), "[]"))
	}
	for i := range d.Failures {
		e := &d.Failures[i]
		show("failure", at(e.At)+" "+e.Type+": "+e.Message)
		for _, line := range e.Backtrace {
			show(" ", "  "+line)
		}
	}
	content := func(name string, c *api.Content) {
		if c == nil {
			return
		}
		text := string(c.JSON)
		if c.Text != nil {
			text = *c.Text
		}
		if text == "" && c.Size > 0 {
			text = "not text: --body prints it"
		}
		show(name, fmt.Sprintf("%s (%s)", shorten(text, bodyShown), plural(c.Size, "byte")))
	}
	content("body", d.Body)
	content("result", d.Result)
	return t.flush()
}
