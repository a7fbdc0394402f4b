package cli

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"millrace/internal/config"
)

// The exit statuses. They are documented in the help of the root command.
const (
	exitOK      = 0
	exitFailure = 1 // something went wrong while running
	exitUsage   = 2 // the command line or the configuration is wrong
	exitDamaged = 3 // the data that was looked at is damaged

	exitNotFound    = 4 // there is no such queue or job, or nothing to fetch
	exitUnreachable = 5 // the server does not answer
)

// Process is what a command sees of the operating system.
type Process struct {
	Stdin   io.Reader // without it the process's own
	Stdout  io.Writer
	Stderr  io.Writer
	Environ []string
	// Signals stop the server: the first drains it, the second ends it at once.
	// Without them the process's own SIGINT and SIGTERM are used.
	Signals <-chan os.Signal
	// Reloads have the server read its configuration again. Without them the process's own SIGHUP does.
	Reloads <-chan os.Signal
	// Packaged is where the packages put the configuration of the server. Without it it is config.PackagedFile.
	Packaged string
	// HangupEnds leaves SIGHUP to Signals.
	HangupEnds bool
}

// Main runs the command that the arguments name and returns the exit status.
func Main(args []string, p Process) int {
	root := newRoot(p)
	root.SetArgs(args)
	if p.Stdin != nil {
		root.SetIn(p.Stdin)
	}
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	cmd, err := root.ExecuteC()
	if err == nil {
		return exitOK
	}
	// Whether stderr takes the message or not, the status tells.
	_, _ = fmt.Fprintf(p.Stderr, "millrace: %s\n", err)
	if f, failed := errors.AsType[*failure](err); failed {
		return f.status
	}
	if _, explained := errors.AsType[*config.Error](err); !explained {
		_, _ = fmt.Fprintf(p.Stderr, "Run %q for help.\n", cmd.CommandPath()+" --help")
	}
	return exitUsage
}

// failure marks an error that came up while running: neither the command line nor
// the configuration is to blame.
type failure struct {
	status int
	err    error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// fail marks err as a failure; nil stays nil.
func fail(err error) error {
	if err == nil {
		return nil
	}
	return &failure{err: err, status: exitFailure}
}

// noArgs is the Args of commands that take none: one that is there is a mistyped
// command or has lost its flag.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if !cmd.HasAvailableSubCommands() {
		return fmt.Errorf("%q takes no arguments, but got %q", cmd.CommandPath(), args[0])
	}
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(append(names, c.Name()), c.Aliases...)
		}
	}
	return fmt.Errorf("unknown command %q for %q%s", args[0], cmd.CommandPath(), didYouMean(args[0], "", names))
}

// didYouMean ends a message with the name that was probably meant, if there is one.
func didYouMean(name, prefix string, candidates []string) string {
	if best := config.Suggest(name, candidates); best != "" {
		return fmt.Sprintf(": did you mean %q?", prefix+best)
	}
	return ""
}
