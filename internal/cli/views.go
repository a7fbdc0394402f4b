package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"millrace/internal/api"
	"millrace/internal/apiclient"
)

// oneQueueAtMost checks the arguments of a command that takes a queue or none.
func oneQueueAtMost(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return fmt.Errorf("%q takes at most one queue, but got %d", cmd.CommandPath(), len(args))
	}
	return nil
}

func newFailuresCommand(p Process) *cobra.Command {
	cmd := &cobra.Command{
		Use: "failures [QUEUE]", Short: "Show what fails: dead and retrying jobs by type and error",
		Long: `Show what fails: dead and retrying jobs, grouped by type and by what their errors have in common.
The largest group comes first. If there are very many jobs, the command looks at the newest of each
queue. "millrace job retry --all-matching --type T --error E" retries all jobs of a group, including
those that it did not look at.`,
		Example: `  millrace failures
  millrace failures mails
  millrace failures --json | jq -r '.groups[] | [.count, .type, .error] | @tsv'
  millrace job retry --all-matching --state dead --type SendEmail --error "connection refused"`,
		Args: oneQueueAtMost,
	}
	namespace := addNamespace(cmd, "", "only this namespace; with a queue the default one if none is given")
	return asking(p, cmd, func(cmd *cobra.Command, c *apiclient.Client, asJSON bool, args []string) error {
		queue := ""
		if len(args) > 0 {
			queue, *namespace = args[0], orElse(*namespace, namespaceDefault)
		}
		found, err := c.Failures(cmd.Context(), *namespace, queue)
		if err != nil {
			return err
		}
		if asJSON {
			return fail(printJSON(cmd.OutOrStdout(), found))
		}
		return fail(printFailures(cmd, &found))
	})
}

func printFailures(cmd *cobra.Command, found *api.Failures) error {
	if len(found.Groups) == 0 {
		_, err := fmt.Fprintln(cmd.ErrOrStderr(), "Nothing has failed: there are no dead and no retrying jobs.")
		return err
	}
	t := newTable(cmd.OutOrStdout(), "JOBS", "DEAD", "RETRYING", "TYPE", "ERROR", "FIRST", "LAST", "QUEUE", "NEWEST")
	for i := range found.Groups {
		g := &found.Groups[i]
		t.row(strconv.Itoa(g.Count), strconv.Itoa(g.Dead), strconv.Itoa(g.Retrying), g.Type,
			shorten(g.Message, whatWidth), since(&g.First), since(&g.Last),
			g.Sample.Queue, count(g.Sample.ID))
	}
	if err := t.flush(); err != nil {
		return err
	}
	if found.Complete() {
		return nil
	}
	_, err := fmt.Fprintf(cmd.ErrOrStderr(), "Of %d jobs the newest %d were looked at.\n", found.Total, found.Looked)
	return err
}

func newTypesCommand(p Process) *cobra.Command {
	cmd := &cobra.Command{
		Use: "types", Short: "Show how many jobs of each type were fetched and failed, and how long " +
			"they waited and ran",
		Long: `Show how many jobs of each type were fetched, acked and failed, and the median and 95th percentile
of how long they waited and ran: since the server was started, or in a period.`,
		Example: `  millrace types
  millrace types --period hour
  millrace types --json | jq '.types[] | select(.failed > 0)'`,
		Args: noArgs,
	}
	period := cmd.Flags().String("period", "", "hour, day or month; without it since the server was started")
	completes(cmd, "period", []string{"hour", "day", "month"})
	return asking(p, cmd, func(cmd *cobra.Command, c *apiclient.Client, asJSON bool, _ []string) error {
		found, err := c.Types(cmd.Context(), *period)
		if err != nil {
			return err
		}
		if asJSON {
			return fail(printJSON(cmd.OutOrStdout(), found))
		}
		if len(found.Types) == 0 {
			_, err := fmt.Fprintln(cmd.ErrOrStderr(), "No job was fetched in this time.")
			return fail(err)
		}
		t := newTable(cmd.OutOrStdout(), "TYPE", "FETCHED", "PER SECOND", "ACKED", "FAILED", "WAIT P50", "WAIT P95",
			"RUN P50", "RUN P95")
		for i := range found.Types {
			f := &found.Types[i]
			name := f.Type
			if f.Others {
				name = "(all others)"
			}
			wait50, wait95 := quantiles(f.Wait)
			run50, run95 := quantiles(f.Run)
			t.row(orElse(name, "(no type)"), count(f.Fetched),
				fmt.Sprintf("%.1f", float64(f.Fetched)/max(found.Seconds, 1)), count(f.Acked), count(f.Failed),
				wait50, wait95, run50, run95)
		}
		return fail(t.flush())
	})
}

func quantiles(w *api.Wait) (p50, p95 string) {
	if w == nil {
		return "", ""
	}
	return seconds(w.P50).Round(time.Millisecond / 10).String(), seconds(w.P95).Round(time.Millisecond / 10).String()
}

func newActivityCommand(p Process) *cobra.Command {
	l := &lister[api.Activity]{
		short: "Show what operators have done lately",
		long: `Show what operators have done lately, through the web UI, the command line and the operator API, the
newest first. The last 200 are kept.`,
		example: "  millrace activity\n  millrace activity --json | jq -r .what",
		header:  []string{"WHEN", "WHAT", "JOBS", "FROM", "WITH"},
		empty:   "Nobody has done anything yet. Pauses, retries, deletions and the like are listed here.",
		row: func(a *api.Activity) []string {
			jobs := "" // none, or not known yet when a bulk action began
			if a.Jobs > 0 {
				jobs = count(a.Jobs)
			}
			return []string{a.At.Format(time.DateTime), a.What, jobs, a.Who, a.Via}
		},
		fetch: func(ctx context.Context, c *apiclient.Client, _ api.PageOf) ([]api.Activity, string, error) {
			got, err := c.Activity(ctx)
			return got.Activity, "", err
		},
	}
	cmd := newList(p, l)
	cmd.Use, cmd.Aliases = "activity", nil
	return cmd
}
