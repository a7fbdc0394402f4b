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
	empty                string // said if there is nothing
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
		return l.print(cmd, c, asJSON)
	})
}

func (l *lister[T]) print(cmd *cobra.Command, c *apiclient.Client, asJSON bool) error {
	var t *table
	for page := (api.PageOf{Limit: api.PageMax}); ; {
		found, next, err := l.fetch(cmd.Context(), c, page)
		if err != nil {
			return err
		}
		for i := range found {
			switch {
			case asJSON:
				err = printLine(cmd.OutOrStdout(), found[i])
			case t == nil:
				t = newTable(cmd.OutOrStdout(), l.header...)
				fallthrough
			default:
				t.row(l.row(&found[i])...)
			}
			if err != nil {
				return fail(err)
			}
		}
		if page.Cursor = next; next == "" {
			break
		}
	}
	switch {
	case t != nil:
		return fail(t.flush())
	case !asJSON:
		_, err := fmt.Fprintln(cmd.ErrOrStderr(), l.empty)
		return fail(err)
	}
	return nil
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
