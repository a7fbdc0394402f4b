package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"millrace/internal/api"
	"millrace/internal/apiclient"
)

// jobAction is a command that does something to jobs.
type jobAction struct {
	action api.Action
	short  string
	done   string // what has been done to a job
	ask    bool   // it takes something away
}

var jobActions = []jobAction{
	{api.ActionRetry, "Make jobs ready that failed: retrying, failed or dead", "retried", false},
	{api.ActionRun, "Make scheduled jobs ready now", "made ready", false},
	{api.ActionKill, "Give up on jobs: they are dead and kept", "killed", true},
	{api.ActionCancel, "Delete jobs that have not come to an end", "cancelled", true},
	{api.ActionDelete, "Delete jobs, whatever their state", "deleted", true},
	{api.ActionMove, "Move jobs to another queue", "moved", false},
	{api.ActionBury, "Set jobs aside until they are kicked", "buried", false},
	{api.ActionKick, "Make buried jobs ready", "kicked", false},
	{api.ActionRespawn, "Make dead or failed jobs ready as if they were new", "respawned", false},
}

// name is that of the command.
func (a *jobAction) name() string {
	if a.action == api.ActionDelete {
		return "rm"
	}
	return string(a.action)
}

// onJobs are the flags of such a command.
type onJobs struct {
	jobAction
	p       Process
	api     *apiFlags
	filters *filterFlags
	all     *bool
	yes     *bool
	with    api.With
}

func newJobAction(p Process, a jobAction) *cobra.Command {
	o := &onJobs{jobAction: a, p: p}
	name := a.name()
	to, filter := "", "--state dead --error timeout"
	switch a.action {
	case api.ActionMove:
		to, filter = " --to later", "--state ready"
	case api.ActionRun:
		filter = "--state scheduled"
	case api.ActionKick:
		filter = "--queue mails"
	case api.ActionKill, api.ActionCancel, api.ActionBury:
		filter = "--queue mails --state ready"
	case api.ActionRetry, api.ActionDelete, api.ActionRespawn:
	}
	cmd := &cobra.Command{
		Use:   name + " [REF...]",
		Short: a.short,
		Long: a.short + `.

REF is the id of a job, in our own form or in that of a protocol, or its key.

With --all-matching it concerns all jobs that fit the filter when it begins; the server does it in small steps, and
goes on with it even if this command is killed. Ctrl-C stops it.`,
		Example: fmt.Sprintf(`  millrace job %[1]s 17%[2]s
  millrace job %[1]s --all-matching %[3]s%[2]s
  millrace job %[1]s --all-matching --queue mails%[2]s --yes --json`, name, to, filter),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	if a.action == api.ActionDelete {
		cmd.Aliases = []string{"delete", "remove"}
	}
	o.all = cmd.Flags().Bool("all-matching", false, "do it to all jobs that fit the flags below")
	o.filters = addFilter(cmd)
	if a.action == api.ActionMove {
		cmd.Flags().StringVar(&o.with.To, "to", "", "the queue to move to")
	}
	if a.action == api.ActionRespawn {
		cmd.Flags().Uint32Var(&o.with.Attempts, "attempts", 0, "attempts from now on; 0 is as many as it had")
	}
	o.yes = addYes(cmd)
	o.api = addAPI(cmd, p)
	must(cmd.RegisterFlagCompletionFunc("queue", o.api.completeQueues(&o.filters.Namespace)))
	if a.action == api.ActionMove {
		must(cmd.RegisterFlagCompletionFunc("to", o.api.completeQueues(&o.filters.Namespace)))
	}
	cmd.Args = o.check
	cmd.RunE = o.run
	return cmd
}

// check refuses what does not say which jobs are meant.
func (o *onJobs) check(cmd *cobra.Command, args []string) error {
	switch {
	case o.action == api.ActionMove && o.with.To == "":
		return errors.New("--to: name the queue to move to")
	case *o.all && len(args) > 0:
		return fmt.Errorf("--all-matching is for a filter: leave out %q", args[0])
	case !*o.all && len(args) == 0:
		return fmt.Errorf("%q needs the id or key of a job, or --all-matching and a filter", cmd.CommandPath())
	}
	if *o.all {
		return nil
	}
	for _, name := range []string{"queue", "state", "type", "error", "body", "batch", "after", "before", "time"} {
		if cmd.Flags().Changed(name) {
			return fmt.Errorf("--%s is for --all-matching: a job that is named needs no filter", name)
		}
	}
	return nil
}

func (o *onJobs) run(cmd *cobra.Command, args []string) error {
	filter, err := o.filters.filter()
	if err != nil {
		return err
	}
	return o.api.ask(func(c *apiclient.Client) error {
		if *o.all {
			return o.bulk(cmd, c, filter)
		}
		return o.named(cmd, c, args)
	})
}

// actAtOnce is how many jobs one request names.
const actAtOnce = 500

// named does it to the jobs that are named.
func (o *onJobs) named(cmd *cobra.Command, c *apiclient.Client, refs []string) error {
	targets := make([]api.Target, 0, len(refs))
	for _, ref := range refs {
		j, err := locate(cmd.Context(), c, o.filters.Namespace, ref)
		if err != nil {
			return err
		}
		targets = append(targets, api.Target{Namespace: j.Namespace, Queue: j.Queue, ID: j.ID})
	}
	if o.ask {
		question := fmt.Sprintf("%s %s?", capital(string(o.action)), plural(len(targets), "job"))
		if len(targets) == 1 {
			question = fmt.Sprintf("%s job %d of queue %s?", capital(string(o.action)), targets[0].ID, targets[0].Queue)
		}
		if err := confirm(cmd, *o.yes, question); err != nil {
			return err
		}
	}
	var refused int
	for part := range slices.Chunk(targets, actAtOnce) {
		outcomes, err := c.ActAll(cmd.Context(), o.action, part, o.with)
		if err != nil {
			return err
		}
		for i := range outcomes {
			if !outcomes[i].Done {
				refused++
			}
			if err := o.told(cmd, &outcomes[i]); err != nil {
				return fail(err)
			}
		}
	}
	if refused > 0 {
		return fail(fmt.Errorf("%s refused", plural(refused, "job")))
	}
	return nil
}

// told prints what became of a job.
func (o *onJobs) told(cmd *cobra.Command, out *api.Outcome) error {
	if o.api.asJSON {
		return printLine(cmd.OutOrStdout(), out)
	}
	var err error
	if out.Done {
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "job %d %s\n", out.ID, o.done)
	} else {
		_, err = fmt.Fprintf(cmd.ErrOrStderr(), "job %d: %s\n", out.ID,
			printable(orElse(out.Problem.Detail, out.Problem.Title)))
	}
	return err
}

func capital(text string) string { return string(text[0]-'a'+'A') + text[1:] }

// bulkPoll is how often a bulk action is looked at.
const bulkPoll = 200 * time.Millisecond

// bulk does it to all jobs that fit the filter.
func (o *onJobs) bulk(cmd *cobra.Command, c *apiclient.Client, filter api.Filter) error {
	what := "all jobs"
	if !o.filters.empty() {
		what = "all jobs that fit"
	}
	if o.ask || o.filters.empty() {
		if err := confirm(cmd, *o.yes, fmt.Sprintf("%s %s?", capital(string(o.action)), what)); err != nil {
			return err
		}
	}
	ctx, stop := o.p.interruptible(cmd.Context())
	defer stop()
	b, err := c.StartBulk(ctx, o.action, filter, o.with)
	if err != nil {
		return err
	}
	bar := newProgress(cmd.ErrOrStderr())
	b, err = o.watch(ctx, c, b, bar)
	bar.stop()
	if err != nil {
		return fmt.Errorf("%w; the server goes on with bulk action %s", err, b.ID)
	}
	if o.api.asJSON {
		if err := printJSON(cmd.OutOrStdout(), b); err != nil {
			return fail(err)
		}
	} else if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s %s, %d looked at\n", plural(b.Done,
		"job"), o.done, b.Examined); err != nil {
		return fail(err)
	}
	switch b.State {
	case api.BulkCancelled:
		return fail(errors.New("cancelled: what was done stays"))
	case api.BulkFailed:
		return fail(fmt.Errorf("it ended early: %s", b.Problem))
	case api.BulkWaiting, api.BulkRunning, api.BulkDone:
	}
	return nil
}

// watch shows a bulk action until it ends. An interrupt cancels it.
func (o *onJobs) watch(ctx context.Context, c *apiclient.Client, b api.Bulk, bar *progress) (api.Bulk, error) {
	tick := time.NewTicker(bulkPoll)
	defer tick.Stop()
	id := b.ID
	for {
		now, err := c.Bulk(context.WithoutCancel(ctx), id)
		if err != nil {
			return b, err
		}
		if b = now; b.State != api.BulkWaiting && b.State != api.BulkRunning {
			return b, nil
		}
		bar.update(string(o.action), b.Examined, max(b.Total, b.Examined+1))
		select {
		case <-tick.C:
		case <-ctx.Done():
			return c.CancelBulk(context.WithoutCancel(ctx), id)
		}
	}
}
