package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/internal/api"
	"millrace/internal/apiclient"
	"millrace/internal/job"
)

// namespaceDefault is where the protocols put jobs unless they are told otherwise.
const namespaceDefault = "default"

func newQueueCommand(p Process) *cobra.Command {
	return group("queue", "List, show, limit, make fair, pause, resume, empty and remove queues of a running server",
		`  millrace queue ls
  millrace queue get mails
  millrace queue pause mails --for 10m
  millrace queue purge mails --state dead --yes`,
		newQueueList(p), newQueueGet(p), newQueueLimit(p), newQueueFair(p), newQueueHook(p),
		newQueuePause(p), newQueueResume(p), newQueuePurge(p), newQueueRemove(p))
}

// addNamespace gives a command the flag for a namespace.
func addNamespace(cmd *cobra.Command, def, usage string) *string {
	return cmd.Flags().StringP("namespace", "n", def, usage)
}

func newQueueList(p Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls [PART]",
		Aliases: []string{"list"},
		Short:   "List queues and how many jobs they have",
		Long:    `List the queues of all namespaces, or those whose name has PART in it. With --json each is one line.`,
		Example: `  millrace queue ls
  millrace queue ls mail --namespace default
  millrace queue ls --json | jq -r 'select(.paused) | .name'`,
		Args: atMostOne("a part of a name"),
	}
	namespace := addNamespace(cmd, "", "only this namespace")
	f := addAPI(cmd, p)
	cmd.ValidArgsFunction = f.completeQueues(namespace)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		filter := api.QueueFilter{Namespace: *namespace, Name: strings.Join(args, "")}
		list := lister[api.Queue]{
			header: []string{
				"NAMESPACE", "QUEUE", "READY", "RUNNING", "SCHEDULED", "RETRYING", "BLOCKED", "BURIED", "DEAD",
				"FAILED", "DONE", "OLDEST", "PAUSED",
			},
			empty: "There are no queues: one comes into being with its first job.",
			row:   queueRow,
			fetch: func(ctx context.Context, c *apiclient.Client, page api.PageOf) ([]api.Queue, string, error) {
				got, err := c.Queues(ctx, filter, page)
				return got.Queues, got.Next, err
			},
		}
		return f.ask(func(c *apiclient.Client) error { return list.print(cmd.Context(), cmd, c, f.asJSON) })
	}
	return cmd
}

func queueRow(q *api.Queue) []string {
	cells := []string{q.Namespace, q.Name}
	for _, s := range api.ShownStates() {
		cells = append(cells, count(q.Counts[s]))
	}
	return append(cells, oldest(q), pause(q))
}

// oldest tells how long the first ready job of a queue has waited.
func oldest(q *api.Queue) string {
	if q.OldestReadySeconds == nil {
		return ""
	}
	return span(seconds(*q.OldestReadySeconds))
}

// pause tells whether a queue is paused, and for how long.
func pause(q *api.Queue) string {
	switch {
	case !q.Paused:
		return ""
	case q.PausedUntil != nil:
		return "for " + span(time.Until(*q.PausedUntil))
	}
	return "yes"
}

func newQueueGet(p Process) *cobra.Command {
	q := newOnQueues("get QUEUE...", "Show everything about queues",
		"Show everything about queues. With --json each is one line.",
		`  millrace queue get mails
  millrace queue get mails --json | jq .totals.failed`)
	q.Aliases = []string{"show"}
	return q.do(p, func(ctx context.Context, c *apiclient.Client, name string) (any, string, error) {
		info, err := c.Queue(ctx, *q.namespace, name)
		return info, queueText(&info), err
	})
}

// queueText shows a queue, a fact to a line.
func queueText(q *api.Queue) string {
	var b strings.Builder
	t := newTable(&b)
	t.row("queue", q.Name+" in namespace "+q.Namespace)
	for _, s := range api.ShownStates() {
		t.row(s, count(q.Counts[s]))
	}
	t.row("oldest ready", oldest(q))
	t.row("paused", orElse(pause(q), "no"))
	if q.Capacity > 0 {
		t.row("capacity", plural(q.Capacity, "job"))
	}
	if q.Fairness != nil {
		t.row("fair", showFairness(q.Fairness))
	}
	if l := q.Limits; l != nil {
		t.row("limits", showLimits(&l.Limits))
		if l.Concurrency > 0 || l.Worker > 0 {
			t.row("slots", showSlots(l))
		}
		t.row("held back", plural(l.Held, "job")+" by limits")
	}
	if h := q.Hook; h != nil {
		t.row("when a job dies", showHook(&h.NewHook))
	}
	t.row("per second", fmt.Sprintf("%.1f pushed, %.1f fetched, %.1f acked, %.1f failed", q.Rates.Pushed,
		q.Rates.Fetched, q.Rates.Acked, q.Rates.Failed))
	t.row("in all", fmt.Sprintf("%d pushed, %d fetched, %d acked, %d failed", q.Totals["pushed"], q.Totals["fetched"],
		q.Totals["acked"], q.Totals["failed"]))
	t.row("protocols", strings.Join(q.Protocols, ", "))
	t.row("created", since(q.Created))
	_ = t.flush() // a Builder takes everything
	return strings.TrimSuffix(b.String(), "\n")
}

// atMostOne is the Args of a command that takes one argument or none.
func atMostOne(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return fmt.Errorf("%q takes %s, but got %q too", cmd.CommandPath(), what, args[1])
		}
		return nil
	}
}

// atLeastOne is the Args of a command that needs something to work on.
func atLeastOne(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return fmt.Errorf("%q needs %s", cmd.CommandPath(), what)
		}
		return nil
	}
}

// queueCommand is a command that does something to some queues.
type queueCommand struct {
	cobra.Command
	api       *apiFlags
	namespace *string
}

func newOnQueues(use, short, long, example string) *queueCommand {
	q := &queueCommand{Command: cobra.Command{
		Use: use, Short: short, Long: long, Example: example,
		Args: atLeastOne("the name of a queue"),
	}}
	q.namespace = addNamespace(&q.Command, namespaceDefault, "namespace of the queues")
	return q
}

// onQueue does something with one queue, and returns it and what to say.
type onQueue func(ctx context.Context, c *apiclient.Client, name string) (any, string, error)

// do runs f for each queue.
func (q *queueCommand) do(p Process, f onQueue) *cobra.Command {
	return q.doWith(p, func(args []string) ([]string, onQueue, error) { return args, f, nil })
}

// doWith runs for each queue what the arguments say, of which some may be no names.
func (q *queueCommand) doWith(
	p Process, parse func(args []string) (names []string, f onQueue, err error),
) *cobra.Command {
	q.api = addAPI(&q.Command, p)
	q.ValidArgsFunction = q.api.completeQueues(q.namespace)
	q.RunE = func(cmd *cobra.Command, args []string) error {
		names, f, err := parse(args)
		if err != nil {
			return err
		}
		return q.api.ask(func(c *apiclient.Client) error {
			return each(cmd, q.api.asJSON, names, func(name string) (any, string, error) {
				value, text, err := f(cmd.Context(), c, name)
				return value, text, elsewhere(cmd.Context(), c, *q.namespace, name, err)
			})
		})
	}
	return &q.Command
}

// elsewhere adds to the error about a queue that is not there in which namespaces one of that name is.
func elsewhere(ctx context.Context, c *apiclient.Client, namespace, name string, err error) error {
	p, ok := errors.AsType[*api.Problem](err)
	if !ok || p.Status != http.StatusNotFound {
		return err
	}
	told := *p
	told.Detail = fmt.Sprintf("there is no queue %q in namespace %q", name, namespace)
	page, lerr := c.Queues(ctx, api.QueueFilter{Name: name}, api.PageOf{Limit: api.PageMax})
	if lerr != nil {
		return &told
	}
	var found []string
	for _, q := range page.Queues {
		if q.Name == name {
			found = append(found, "--namespace "+q.Namespace)
		}
	}
	if len(found) > 0 {
		told.Detail += ", but elsewhere: add " + strings.Join(found, ", or ")
	} else {
		told.Detail += `: "millrace queue ls" lists all queues`
	}
	return &told
}

func newQueuePause(p Process) *cobra.Command {
	q := newOnQueues("pause QUEUE...", "Let no worker fetch from queues",
		"Let no worker fetch from queues, until they are resumed or for some time. Jobs can still be pushed.",
		`  millrace queue pause mails
  millrace queue pause mails reports --for 10m`)
	limit := q.Flags().Duration("for", 0, "resume by itself after this time")
	return q.do(p, func(ctx context.Context, c *apiclient.Client, name string) (any, string, error) {
		if *limit < 0 {
			return nil, "", fmt.Errorf("--for: %s is no time to wait: choose for example 10m", *limit)
		}
		info, err := c.Pause(ctx, *q.namespace, name, *limit)
		text := printable(name) + " is paused"
		if *limit > 0 {
			text += " for " + span(*limit)
		}
		return info, text + ".", err
	})
}

func newQueueResume(p Process) *cobra.Command {
	q := newOnQueues("resume QUEUE...", "Let workers fetch from queues again",
		"Let workers fetch again from queues that are paused.",
		`  millrace queue resume mails
  millrace queue resume $(millrace queue ls --json | jq -r 'select(.paused) | .name')`)
	return q.do(p, func(ctx context.Context, c *apiclient.Client, name string) (any, string, error) {
		info, err := c.Resume(ctx, *q.namespace, name)
		return info, printable(name) + " is not paused.", err
	})
}

// removed is what "queue purge" and "queue rm" print as JSON.
type removed struct {
	Namespace string `json:"namespace"`
	Queue     string `json:"queue"`
	Jobs      int    `json:"jobs"`
}

func newQueuePurge(p Process) *cobra.Command {
	q := newOnQueues("purge QUEUE...", "Delete jobs of queues",
		"Delete the jobs of queues that are in a state, or all of them, those in workers' hands too. The queues stay.",
		`  millrace queue purge mails --state dead
  millrace queue purge mails --yes`)
	state := q.Flags().StringP("state", "s", "", "only jobs in this state: "+stateList())
	completes(&q.Command, "state", api.StateNames())
	yes := addYes(&q.Command)
	return q.do(p, func(ctx context.Context, c *apiclient.Client, name string) (any, string, error) {
		info, err := c.Queue(ctx, *q.namespace, name)
		if err != nil {
			return nil, "", err
		}
		what, n := "job", info.Jobs
		if *state != "" {
			s, ok := job.ParseState(*state)
			if !ok {
				return nil, "", fmt.Errorf("--state %q: want one of %s", *state, stateList())
			}
			*state = s.Name()
			what, n = *state+" job", info.Counts[*state]
		}
		if err := confirm(&q.Command, *yes, fmt.Sprintf("Delete %s of queue %s?", plural(n, what), name)); err != nil {
			return nil, "", err
		}
		var count api.Count
		if *state != "" {
			count, err = c.Purge(ctx, *q.namespace, name, *state)
		} else {
			count, err = c.RemoveQueue(ctx, *q.namespace, name, api.RemoveOptions{Keep: true})
		}
		return removed{*q.namespace, name, count.Jobs}, fmt.Sprintf("%s of %s deleted.", plural(count.Jobs, what),
			printable(name)), err
	})
}

func newQueueRemove(p Process) *cobra.Command {
	q := newOnQueues("rm QUEUE...", "Remove queues with all their jobs",
		"Remove queues with all their jobs, settings and counters. A queue comes back empty when a "+
			"job is pushed to it.",
		`  millrace queue rm mails
  millrace queue rm mails --if-idle --yes`)
	q.Aliases = []string{"remove"}
	idle := q.Flags().Bool("if-idle", false, "only if no worker holds a job of it or waits for one")
	yes := addYes(&q.Command)
	return q.do(p, func(ctx context.Context, c *apiclient.Client, name string) (any, string, error) {
		info, err := c.Queue(ctx, *q.namespace, name)
		if err != nil {
			return nil, "", err
		}
		if err := confirm(&q.Command, *yes, fmt.Sprintf("Remove queue %s with %s?", name,
			plural(info.Jobs, "job"))); err != nil {
			return nil, "", err
		}
		count, err := c.RemoveQueue(ctx, *q.namespace, name, api.RemoveOptions{IfIdle: *idle})
		return removed{*q.namespace, name, count.Jobs}, fmt.Sprintf("%s removed with %s.", printable(name),
			plural(count.Jobs, "job")), err
	})
}

func stateList() string { return strings.Join(api.StateNames(), ", ") }
