package cli

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"millrace/internal/apiclient"
	"millrace/internal/top"
)

func newTopCommand(p Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch queues and running jobs of a running server in the terminal",
		Long: `Show the queues of a running server, the jobs that run, wait for a retry or are dead, and
how much happens in a second. Keys sort, filter, pause and resume queues, retry and kill jobs;
"?" explains them.

With --once one frame is printed, with all queues, for scripts.`,
		Example: `  millrace top
  millrace top --every 5s --api http://jobs.example.com:7420
  millrace top --once
  millrace top --once --json | jq '.queues[] | select(.paused) | .name'`,
		Args: noArgs,
	}
	once := cmd.Flags().Bool("once", false, "print one frame and end")
	every := cmd.Flags().String("every", "1s", "how often the server is asked")
	f := addAPI(cmd, p)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		interval, err := parsePositive("--every", *every)
		if err != nil {
			return err
		}
		if f.asJSON && !*once {
			return errors.New("--json needs --once: a screen is not JSON")
		}
		if *once {
			return f.printTop(cmd)
		}
		return f.watchTop(cmd, interval)
	}
	return cmd
}

// watchTop shows the screen.
func (f *apiFlags) watchTop(cmd *cobra.Command, every time.Duration) error {
	in, out := cmd.InOrStdin(), cmd.OutOrStdout()
	if w, ok := in.(io.Writer); !ok || !isTerminal(w) || !isTerminal(out) {
		return errors.New("this is no terminal: --once prints one frame")
	}
	return f.ask(func(c *apiclient.Client) error {
		return top.Run(cmd.Context(), top.Options{
			API: c, Address: c.URL(), Every: every, Input: in, Output: out, Environ: f.p.Environ,
		})
	})
}

// Widths of a frame that is printed, unless COLUMNS says another.
const (
	frameWidth    = 100
	frameWidthMin = 60
	frameWidthMax = 1000
)

// printTop prints one frame.
func (f *apiFlags) printTop(cmd *cobra.Command) error {
	return f.ask(func(c *apiclient.Client) error {
		s, err := top.Look(cmd.Context(), c)
		if err != nil {
			return err
		}
		if f.asJSON {
			return fail(printLine(cmd.OutOrStdout(), s))
		}
		width, err := strconv.Atoi(f.p.env("COLUMNS"))
		if err != nil {
			width = frameWidth
		}
		_, err = fmt.Fprint(cmd.OutOrStdout(), top.Frame(c.URL(), s, min(max(width, frameWidthMin), frameWidthMax)))
		return fail(err)
	})
}
