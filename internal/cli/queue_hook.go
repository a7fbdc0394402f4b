package cli

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"millrace/internal/api"
	"millrace/internal/apiclient"
)

// showHook says what happens when a job dies.
func showHook(h *api.NewHook) string {
	if h.URL != "" {
		return "call " + h.URL
	}
	return "push to " + h.Push
}

func newQueueHook(p Process) *cobra.Command {
	cmd := &cobra.Command{
		Use: "hook QUEUE [off]", Short: "Push a job or call a URL when a job of a queue dies",
		Long: `Push a job to another queue, or call a URL, whenever a job of a queue dies. "off" removes the hook.
Without flags the command shows it. The queue need not exist yet.`,
		Example: `  millrace queue hook mails --push dead-mails
  millrace queue hook mails --url https://example.org/dead
  millrace queue hook mails off`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) > 2 || len(args) == 2 && args[1] != "off" {
				return fmt.Errorf(`%q takes the name of a queue, and "off" to remove its hook`, cmd.CommandPath())
			}
			return nil
		},
	}
	namespace := addNamespace(cmd, namespaceDefault, "namespace of the queue")
	push := cmd.Flags().String("push", "", "queue of the same namespace to push a job to")
	to := cmd.Flags().String("url", "", "URL to call, such as https://example.org/dead")
	cmd.MarkFlagsMutuallyExclusive("push", "url")
	flags := addAPI(cmd, p)
	cmd.ValidArgsFunction = flags.completeQueues(namespace)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, queue := cmd.Context(), args[0]
		h, sets := api.Hook{}, *push != "" || *to != ""
		if sets && len(args) == 2 {
			return errors.New(`--push and --url set a hook, and "off" removes it: choose one`)
		}
		err := flags.ask(func(c *apiclient.Client) (err error) {
			switch {
			case sets:
				h, err = c.SetHook(ctx, *namespace, queue, api.NewHook{Push: *push, URL: *to})
			case len(args) == 2:
				err = c.DropHook(ctx, *namespace, queue)
			default:
				h, err = c.Hook(ctx, *namespace, queue)
			}
			if problem, ok := errors.AsType[*api.Problem](err); ok && problem.Status == http.StatusNotFound {
				err = nil // it has none, which is what "off" wants
			}
			return err
		})
		if err != nil {
			return err
		}
		switch {
		case flags.asJSON:
			err = printLine(cmd.OutOrStdout(), h)
		case h.Queue == "":
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s has no hook.\n", printable(queue))
		default:
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "When a job of %s dies: %s.\n", printable(queue),
				printable(showHook(&h.NewHook)))
		}
		return fail(err)
	}
	return cmd
}
