package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/internal/api"
	"millrace/internal/apiclient"
	"millrace/internal/schedule"
)

func newCronCommand(p Process) *cobra.Command {
	return group("cron", "Push jobs again and again: add, list, show, pause, resume, run and remove cron entries",
		`  millrace cron add report --schedule '0 9 * * MON-FRI' --tz Europe/Berlin --queue reports --type Report
  millrace cron ls
  millrace cron next report -n 5
  millrace cron run report`,
		newCronAdd(p), newCronList(p), newCronGet(p), newCronNext(p),
		onCron(p, "pause NAME...", "Have cron entries push no more jobs", "  millrace cron pause report",
			func(ctx context.Context, c *apiclient.Client, namespace, name string) (any, string, error) {
				e, err := c.PauseCron(ctx, namespace, name)
				return e, printable(name) + " is paused.", err
			}),
		onCron(p, "resume NAME...", "Have cron entries go on from now", "  millrace cron resume report",
			func(ctx context.Context, c *apiclient.Client, namespace, name string) (any, string, error) {
				e, err := c.ResumeCron(ctx, namespace, name)
				return e, printable(name) + " runs next " + since(e.Next) + ".", err
			}),
		onCron(p, "run NAME...", "Push the jobs of cron entries now, and print their ids", "  millrace cron run report",
			func(ctx context.Context, c *apiclient.Client, namespace, name string) (any, string, error) {
				j, err := c.RunCron(ctx, namespace, name)
				return j, count(j.ID), err
			}),
		onCron(p, "rm NAME...", "Remove cron entries; the jobs that they have pushed stay", "  millrace cron rm report",
			func(ctx context.Context, c *apiclient.Client, namespace, name string) (any, string, error) {
				err := c.DropCron(ctx, namespace, name)
				return map[string]string{"namespace": namespace, "name": name}, printable(name) + " is removed.", err
			}))
}

func newCronAdd(p Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "add NAME [BODY]",
		Short: "Create or change a cron entry, which pushes a job again and again",
		Long: `Create or change an entry that pushes a job to a queue at every run of its schedule. The schedule is
five fields (minute, hour, day of the month, month, day of the week), six with seconds first, a name
such as @hourly, or @every 90s. BODY and the flags of the job are those of "millrace push".

Runs that are missed while the server is down share one job, which is pushed when the server is
back. --missed skip leaves them out. --missed all pushes a job for each, up to --missed-limit. With
--overlap skip nothing is pushed while the job of the last run is unfinished.`,
		Example: `  millrace cron add report --schedule '0 9 * * MON-FRI' --tz Europe/Berlin --queue reports \
    --type Report '{"kind": "daily"}'
  millrace cron add tick --schedule '@every 90s' --queue ticks --missed skip --overlap skip`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return fmt.Errorf("%q takes a name and a body, but got %d arguments", cmd.CommandPath(), len(args))
			}
			return nil
		},
	}
	u, n := new(pusher), new(api.NewCron)
	namespace := addNamespace(cmd, namespaceDefault, "namespace of the entry and its jobs")
	flags := cmd.Flags()
	flags.StringVar(&n.Schedule, "schedule", "", "when it runs: '*/5 * * * *', @daily, '@every 90s'")
	flags.StringVar(&n.TimeZone, "tz", "", "time zone of the schedule, such as Europe/Berlin; UTC if it is not given")
	flags.StringVar(&n.Queue, "queue", "", "queue that it pushes to")
	flags.StringVar(&n.Missed, "missed", "once", "runs that were missed: skip, once or all")
	flags.Uint32Var(&n.MissedLimit, "missed-limit", 0, "with --missed all, how many of them; 100 if it is not given")
	flags.StringVar(&n.Overlap, "overlap", "allow", "allow a run while the job of the last is unfinished, or skip it")
	flags.BoolVar(&n.Paused, "paused", false, "make it paused")
	flags.StringVar(&u.Type, "type", "", "type of the job, which tells workers what to do")
	flags.StringVar(&u.Key, "key", "", "a name of your own for the job")
	flags.BoolVar(&u.Unique, "unique", false, "push nothing while a job has the key")
	flags.StringVar(&u.Group, "group", "", "jobs of a group run one at a time, or take turns with other "+
		"groups in a fair queue")
	flags.Int64Var(&u.Priority, "priority", 0, "higher first")
	flags.StringVar(&u.ttl, "ttl", "", "gone if no worker has taken it within this time")
	flags.StringVar(&u.lease, "lease", "", "how long a worker holds it, where the worker does not say")
	flags.IntVar(&u.retry, "retry", api.RetryDefault, "how often it is tried again after a failure")
	flags.StringVar(&u.kind, "kind", "", "what the body is: json, args (a JSON array of arguments), "+
		"bytes, msgpack or none")
	must(cmd.MarkFlagRequired("schedule"))
	must(cmd.MarkFlagRequired("queue"))
	for flag, values := range map[string][]string{"missed": {"skip", "once", "all"}, "overlap": {"allow", "skip"}} {
		completes(cmd, flag, values)
	}
	return asking(p, cmd, func(cmd *cobra.Command, c *apiclient.Client, asJSON bool, args []string) error {
		if err := u.times(); err != nil {
			return err
		}
		if _, err := schedule.Parse(n.Schedule, n.TimeZone); err != nil {
			return fmt.Errorf("--schedule or --tz: %w", err)
		}
		u.Retry = &u.retry
		var body []byte
		if len(args) > 1 { // standard input is read only if it is asked for: most entries have no body
			var err error
			if body, err = bodyOf(cmd, args[1:], u.kind); err != nil {
				return err
			}
		}
		n.Job = *u.job(body)
		e, err := c.SetCron(cmd.Context(), *namespace, args[0], *n)
		if err != nil {
			return err
		}
		text := "runs next " + since(e.Next)
		if e.Paused {
			text = "is paused"
		}
		return say(cmd, asJSON, e, "%s %s.", printable(e.Name), text)
	})
}

func newCronList(p Process) *cobra.Command {
	list := &lister[api.Cron]{
		short: "List cron entries", long: "List the cron entries of all namespaces.",
		example: "  millrace cron ls\n  millrace cron ls --json | jq -r 'select(.missed_count > 0) | .name'",
		header: []string{
			"NAMESPACE", "NAME", "SCHEDULE", "ZONE", "QUEUE", "TYPE", "NEXT", "LAST", "RESULT", "FIRED",
			"MISSED", "SKIPPED", "ORIGIN",
		},
		empty: `There are no cron entries: "millrace cron add" makes one.`,
		row: func(e *api.Cron) []string {
			return []string{
				e.Namespace, e.Name, e.Schedule, e.TimeZone, e.Queue, e.Job.Type, cronNext(e), since(e.LastRun),
				e.LastResult, count(e.Fired), count(e.MissedCount), count(e.Skipped), e.Origin,
			}
		},
	}
	ls := newList(p, list)
	namespace := addNamespace(ls, "", "only this namespace")
	list.fetch = func(ctx context.Context, c *apiclient.Client, _ api.PageOf) ([]api.Cron, string, error) {
		got, err := c.Crons(ctx, *namespace)
		return got.Cron, "", err
	}
	return ls
}

// cronNext tells when an entry runs next.
func cronNext(e *api.Cron) string {
	if e.Paused {
		return "paused"
	}
	return since(e.Next)
}

func newCronGet(p Process) *cobra.Command {
	cmd := onCron(p, "get NAME...", "Show everything about cron entries, with their last runs",
		"  millrace cron get report\n  millrace cron get report --json | jq .runs",
		func(ctx context.Context, c *apiclient.Client, namespace, name string) (any, string, error) {
			e, err := c.Cron(ctx, namespace, name)
			return e, cronText(&e), err
		})
	cmd.Aliases = []string{"show"}
	return cmd
}

// cronText shows an entry, a fact to a line, and its runs.
func cronText(e *api.Cron) string {
	var b strings.Builder
	t := newTable(&b)
	t.row("entry", e.Name+" in namespace "+e.Namespace+", set by "+map[string]string{
		"file": "a file",
		"api":  "an operator",
	}[e.Origin])
	t.row("schedule", e.Schedule+" "+orElse(e.TimeZone, "UTC"))
	t.row("pushes to", e.Queue+" "+e.Job.Type)
	t.row("missed runs", e.Missed)
	t.row("overlap", e.Overlap)
	t.row("next", cronNext(e))
	t.row("in all", fmt.Sprintf("%d fired, %d missed, %d skipped", e.Fired, e.MissedCount, e.Skipped))
	for _, r := range e.Runs {
		what := r.Kind
		if r.Count > 1 {
			what += " ×" + count(r.Count)
		}
		if r.Job != 0 {
			what += fmt.Sprintf(" job %d %s", r.Job, r.Result)
		}
		if r.At != nil {
			t.row(r.At.Format(time.RFC3339), what+" "+r.Refused)
		}
	}
	_ = t.flush() // a Builder takes everything
	return strings.TrimSuffix(b.String(), "\n")
}

func newCronNext(p Process) *cobra.Command {
	cmd := &cobra.Command{
		Use: "next NAME", Short: "Print when a cron entry runs next", Args: cobra.ExactArgs(1),
		Example: "  millrace cron next report\n  millrace cron next report -n 20 --json",
	}
	namespace := cmd.Flags().String("namespace", namespaceDefault, "namespace of the entry") // its letter is taken
	count := cmd.Flags().IntP("count", "n", 5, "how many runs")
	return asking(p, cmd, func(cmd *cobra.Command, c *apiclient.Client, asJSON bool, args []string) error {
		runs, err := c.NextCron(cmd.Context(), *namespace, args[0], *count)
		if err != nil {
			return err
		}
		if asJSON {
			return fail(printJSON(cmd.OutOrStdout(), runs))
		}
		for _, at := range runs.Next {
			if _, err := fmt.Fprintln(cmd.OutOrStdout(), at.Format(time.RFC3339)); err != nil {
				return fail(err)
			}
		}
		return nil
	})
}

// onCron makes a command that does something to some entries.
func onCron(p Process, use, short, example string,
	do func(ctx context.Context, c *apiclient.Client, namespace, name string) (any, string, error),
) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Example: example, Args: atLeastOne("the name of a cron entry")}
	namespace := addNamespace(cmd, namespaceDefault, "namespace of the entries")
	return asking(p, cmd, func(cmd *cobra.Command, c *apiclient.Client, asJSON bool, args []string) error {
		return each(cmd, asJSON, args, func(name string) (any, string, error) {
			return do(cmd.Context(), c, *namespace, name)
		})
	})
}
