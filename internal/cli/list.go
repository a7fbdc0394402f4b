package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"millrace/internal/api"
	"millrace/internal/apiclient"
)

// lister is a command that prints a list of the server, part by part.
type lister[T any] struct {
	short, long, example string
	header               []string
	empty                string    // said if there is nothing
	limit                int       // how many are printed; 0 is all
	bar                  *progress // stopped before anything is printed; nil is none
	row                  func(*T) []string
	fetch                func(ctx context.Context, c *apiclient.Client, page api.PageOf) ([]T, string, error)
}

// newList makes the command. More flags may be added to it.
func newList[T any](p Process, l *lister[T]) *cobra.Command {
	cmd := &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: l.short, Long: l.long + " With --json each is one line.",
		Example: l.example, Args: noArgs,
	}
	return asking(p, cmd, func(cmd *cobra.Command, c *apiclient.Client, asJSON bool, _ []string) error {
		return l.print(cmd.Context(), cmd, c, asJSON)
	})
}

func (l *lister[T]) print(ctx context.Context, cmd *cobra.Command, c *apiclient.Client, asJSON bool) error {
	t := newTable(cmd.OutOrStdout(), l.header...)
	shown, page := 0, api.PageOf{Limit: api.PageMax}
	for more := true; more; more = page.Cursor != "" && (l.limit == 0 || shown < l.limit) {
		if l.limit > 0 {
			page.Limit = min(api.PageMax, l.limit-shown)
		}
		found, next, err := l.fetch(ctx, c, page)
		if err != nil {
			l.bar.stop()
			return err
		}
		for i := range found {
			if !asJSON {
				t.row(l.row(&found[i])...)
			} else if err := printLine(cmd.OutOrStdout(), found[i]); err != nil {
				return fail(err)
			}
		}
		shown, page.Cursor = shown+len(found), next
	}
	l.bar.stop()
	if asJSON {
		return nil
	}
	var err error
	if shown > 0 {
		err = t.flush()
	}
	switch {
	case err != nil:
	case page.Cursor != "":
		_, err = fmt.Fprintf(cmd.ErrOrStderr(), "There may be more than %s: add --limit 0 for all.\n",
			plural(shown, "job"))
	case shown == 0:
		_, err = fmt.Fprintln(cmd.ErrOrStderr(), l.empty)
	}
	return fail(err)
}

// asking makes a command of one that asks the server something.
func asking(
	p Process, cmd *cobra.Command, ask func(cmd *cobra.Command, c *apiclient.Client, asJSON bool, args []string) error,
) *cobra.Command {
	if cmd.Long == "" {
		cmd.Long = cmd.Short + "."
	}
	f := addAPI(cmd, p)
	if cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return f.ask(func(c *apiclient.Client) error { return ask(cmd, c, f.asJSON, args) })
	}
	return cmd
}

// each does something to everything that is named, and prints what becomes of each: a line of JSON, or a text.
func each(cmd *cobra.Command, asJSON bool, names []string, do func(name string) (any, string, error)) error {
	for _, name := range names {
		value, text, err := do(name)
		switch {
		case err != nil:
			return err
		case asJSON:
			err = printLine(cmd.OutOrStdout(), value)
		default:
			_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
		}
		if err != nil {
			return fail(err)
		}
	}
	return nil
}

// group makes a command that only has others below it.
func group(use, short, example string, below ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Example: example, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(below...)
	return cmd
}

// say prints a value as JSON, or a text.
func say(cmd *cobra.Command, asJSON bool, v any, format string, args ...any) error {
	if asJSON {
		return fail(printJSON(cmd.OutOrStdout(), v))
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), format+"\n", args...)
	return fail(err)
}
