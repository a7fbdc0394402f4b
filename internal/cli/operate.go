package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"millrace/internal/api"
	"millrace/internal/apiclient"
)

func newWorkerCommand(p Process) *cobra.Command {
	return group("worker", "List worker processes, and tell them to be quiet or to stop", `  millrace worker ls
  millrace worker quiet w-1
  millrace worker stop --all --yes`,
		newList(p, &lister[api.Worker]{
			short: "List the worker processes that are connected",
			long: `List the worker processes that are connected and have introduced themselves, as Faktory's do.
"millrace job ls --state running" lists what workers of all protocols hold.`,
			example: `  millrace worker ls
  millrace worker ls --json | jq -r 'select(.state == "quiet") | .id'`,
			header: []string{
				"WORKER", "NAMESPACE", "HOST", "PID", "STATE", "CONNECTIONS", "STARTED",
				"LAST BEAT", "LABELS",
			},
			empty: `No worker process has introduced itself: only those of Faktory do, with their first heartbeat.
"millrace status" counts clients of all protocols that wait for a job, and "millrace job ls --state running"
shows the jobs that clients hold.`,
			row: func(w *api.Worker) []string {
				return []string{
					w.ID, w.Namespace, w.Hostname, strconv.FormatInt(w.PID, 10), w.State, strconv.Itoa(w.Connections),
					since(w.Started), since(w.LastBeat), strings.Join(w.Labels, ","),
				}
			},
			fetch: func(ctx context.Context, c *apiclient.Client, page api.PageOf) ([]api.Worker, string, error) {
				got, err := c.Workers(ctx, page)
				return got.Workers, got.Next, err
			},
		}),
		newWorkerSignal(p, api.SignalQuiet, "Tell workers to take no more jobs, and to finish those they have"),
		newWorkerSignal(p, api.SignalStop, "Tell workers to end: they finish the jobs they have, or fail them"))
}

func newWorkerSignal(p Process, s api.Signal, short string) *cobra.Command {
	cmd := &cobra.Command{
		Use: string(s) + " [WORKER...]", Short: short, Long: short + ". They hear it with their next heartbeat.",
		Example: fmt.Sprintf("  millrace worker %[1]s w-1\n  millrace worker %[1]s --all --yes", s),
	}
	namespace := addNamespace(cmd, "", "only workers of this namespace")
	all := cmd.Flags().Bool("all", false, "all workers")
	yes := addYes(cmd)
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if *all == (len(args) > 0) {
			return fmt.Errorf("%q needs the id of a worker, or --all", cmd.CommandPath())
		}
		return nil
	}
	return asking(p, cmd, func(cmd *cobra.Command, c *apiclient.Client, asJSON bool, args []string) error {
		if *all {
			if err := confirm(cmd, *yes, fmt.Sprintf("Tell all workers to %s?", s)); err != nil {
				return err
			}
			args = []string{""}
		}
		told := 0
		for _, id := range args {
			n, err := c.SignalWorkers(cmd.Context(), *namespace, id, s)
			if err != nil {
				return err
			}
			told += n
		}
		return say(cmd, asJSON, map[string]int{"workers": told}, "Told %s.", plural(told, "worker"))
	})
}

func newTokenCommand(p Process) *cobra.Command {
	add := &cobra.Command{
		Use: "add NAMESPACE DESCRIPTION", Short: "Create a token for a namespace, and print it once",
		Long: `Create a token for a namespace of LMSTFY, and print it. It is not shown again. Clients use it
instead of a password.`,
		Example: `  millrace token add mails "the mail workers"
  millrace token add mails "the mail workers" --pool fast`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("%q takes a namespace and what the token is for, but got %d arguments",
					cmd.CommandPath(), len(args))
			}
			return nil
		},
	}
	pool := add.Flags().String("pool", "", "the pool of the namespace, if not the usual one")
	remove := &cobra.Command{
		Use: "rm ID...", Aliases: []string{"remove", "delete"},
		Short:   "Remove tokens: clients that use them are refused at once",
		Example: `  millrace token rm 4f1c --yes`, Args: atLeastOne("the id of a token"),
	}
	yes := addYes(remove)
	return group("token", "List, create and remove the tokens of LMSTFY clients", `  millrace token ls
  millrace token add mails "the mail workers"`,
		newList(p, &lister[api.Token]{
			short: "List tokens", long: "List the tokens of LMSTFY clients. The tokens themselves are not shown.",
			example: "  millrace token ls\n  millrace token ls --json | jq -r .id",
			header:  []string{"ID", "TOKEN", "NAMESPACE", "POOL", "DESCRIPTION", "REFUSED READS", "REFUSED WRITES"},
			empty:   "There are no tokens.",
			row: func(t *api.Token) []string {
				return []string{
					t.ID, t.Masked, t.Namespace, t.Pool, t.Description, count(t.RefusedReads),
					count(t.RefusedWrites),
				}
			},
			fetch: func(ctx context.Context, c *apiclient.Client, page api.PageOf) ([]api.Token, string, error) {
				got, err := c.Tokens(ctx, page)
				return got.Tokens, got.Next, err
			},
		}),
		asking(p, add, func(cmd *cobra.Command, c *apiclient.Client, asJSON bool, args []string) error {
			made, err := c.AddToken(cmd.Context(),
				api.TokenOptions{Namespace: args[0], Description: args[1], Pool: *pool})
			if err != nil {
				return err
			}
			return say(cmd, asJSON, made, "%s", made.Text)
		}),
		asking(p, remove, func(cmd *cobra.Command, c *apiclient.Client, asJSON bool, args []string) error {
			if err := confirm(cmd, *yes, fmt.Sprintf("Remove %s?", plural(len(args), "token"))); err != nil {
				return err
			}
			for _, id := range args {
				if err := c.DropToken(cmd.Context(), id); err != nil {
					return err
				}
			}
			return say(cmd, asJSON, map[string]int{"tokens": len(args)}, "%s removed.", plural(len(args), "token"))
		}))
}

func newBatchCommand(p Process) *cobra.Command {
	list := &lister[api.Batch]{
		short: "List batches", long: "List the batches of a namespace, the oldest first.",
		example: "  millrace batch ls\n  millrace batch ls --namespace shop --json | jq .pending",
		header:  []string{"BATCH", "DESCRIPTION", "STATE", "JOBS", "PENDING", "FAILED", "CHILDREN", "CREATED"},
		empty:   "There are no batches in this namespace.",
		row: func(b *api.Batch) []string {
			return []string{
				count(b.ID), b.Text, batchState(b), count(b.Total), count(b.Pending),
				count(b.Failed), count(b.Children), since(b.Created),
			}
		},
	}
	ls := newList(p, list)
	namespace := addNamespace(ls, namespaceDefault, "namespace of the batches")
	list.fetch = func(ctx context.Context, c *apiclient.Client, page api.PageOf) ([]api.Batch, string, error) {
		got, err := c.Batches(ctx, *namespace, page)
		return got.Batches, got.Next, err
	}
	get := &cobra.Command{
		Use: "get ID", Aliases: []string{"show"}, Short: "Show everything about a batch",
		Example: "  millrace batch get 17\n  millrace job ls --batch 17", Args: cobra.ExactArgs(1),
	}
	of := addNamespace(get, namespaceDefault, "namespace of the batch")
	return group("batch", "List and show batches of jobs", "  millrace batch ls\n  millrace batch get 17", ls,
		asking(p, get, func(cmd *cobra.Command, c *apiclient.Client, asJSON bool, args []string) error {
			id, err := strconv.ParseUint(args[0], 10, 64)
			if err != nil {
				return fmt.Errorf("%q is no batch: their ids are numbers", args[0])
			}
			b, err := c.Batch(cmd.Context(), *of, id)
			if err != nil {
				return err
			}
			if asJSON {
				return fail(printJSON(cmd.OutOrStdout(), b))
			}
			t := newTable(cmd.OutOrStdout())
			for i, cell := range list.row(&b) {
				t.row(strings.ToLower(list.header[i]), cell)
			}
			t.row("complete", b.Complete)
			t.row("success", b.Success)
			t.row("forgotten", since(b.ForgetAt))
			return fail(t.flush())
		}))
}

// batchState is how far a batch is.
func batchState(b *api.Batch) string {
	switch {
	case b.Open:
		return "open"
	case b.Success == "acked":
		return "succeeded"
	case b.Complete != "waiting":
		return "complete"
	}
	return "committed"
}

func newBulkCommand(p Process) *cobra.Command {
	return group("bulk", "List and stop actions on all jobs that fit a filter", `  millrace bulk ls
  millrace bulk stop 1a2b`,
		newList(p, &lister[api.Bulk]{
			short: "List bulk actions",
			long: `List the actions on all jobs that fit a filter, the newest first. "millrace job ... --all-matching"
begins one.`,
			example: "  millrace bulk ls",
			header:  []string{"BULK", "ACTION", "JOBS", "STATE", "DONE", "LOOKED AT", "OF", "BEGUN"},
			empty:   `There were none lately: "millrace job retry --all-matching" begins one.`,
			row: func(b *api.Bulk) []string {
				return []string{
					b.ID, string(b.Action), shorten(b.Filter.String(), whatWidth), string(b.State),
					count(b.Done), count(b.Examined), count(b.Total), since(&b.Created),
				}
			},
			fetch: func(ctx context.Context, c *apiclient.Client, page api.PageOf) ([]api.Bulk, string, error) {
				got, err := c.Bulks(ctx, page)
				return got.Bulk, got.Next, err
			},
		}),
		asking(p, &cobra.Command{
			Use: "stop ID", Short: "Stop a bulk action: what was done before stays",
			Example: "  millrace bulk stop 1a2b", Args: cobra.ExactArgs(1),
		}, func(cmd *cobra.Command, c *apiclient.Client, asJSON bool, args []string) error {
			b, err := c.CancelBulk(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if b.State != api.BulkCancelled {
				return fail(errors.New("it had ended already: " + string(b.State)))
			}
			return say(cmd, asJSON, b, "Stopped after %s.", plural(b.Done, "job"))
		}))
}
