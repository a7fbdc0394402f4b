package cli

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"

	"millrace/internal/config"
	"millrace/internal/server"
)

// original is what the flags of an original server mean here.
type original struct {
	settings map[string]string // by key
	ignored  []ignoredFlag
	version  string // printed instead of serving, unless it is empty

	pidFile         string // to write the process id to; it is removed at the end
	hangupEnds      bool   // SIGHUP stops the server, too
	ignoresTerminal bool   // what a terminal sends does not stop the server
}

type ignoredFlag struct{ flag, reason string }

// ownFiles is why flags about files are ignored.
const ownFiles = "the store looks after its files by itself"

// newOriginal returns an original that listens on these addresses only: whoever started it expects that nothing else
// is served.
func newOriginal(addresses ...string) *original {
	o := &original{settings: make(map[string]string)}
	for _, k := range server.Settings().Keys() {
		if k.Kind == config.KindAddresses && !slices.Contains(addresses, k.Name) {
			o.settings[k.Name] = config.AddressOff
		}
	}
	return o
}

// set returns what takes the value of a flag for a setting.
func (o *original) set(key string) func(string) error {
	return func(text string) error {
		o.settings[key] = text
		return nil
	}
}

// newFlags returns a set for the flags of a command, which may have one dash or two.
func newFlags(command string) *flag.FlagSet {
	flags := flag.NewFlagSet(command, flag.ContinueOnError)
	flags.SetOutput(io.Discard) // Main prints the error, cobra the help
	return flags
}

// parseAll reads arguments that must all be flags.
func parseAll(flags *flag.FlagSet, args []string) error {
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%q takes no arguments, but got %q", "millrace "+flags.Name(), flags.Arg(0))
	}
	return nil
}

// newOriginalCommand makes a command of one that takes the flags of an original server, so that a script that started
// that one starts this one.
func newOriginalCommand(
	p Process, cmd *cobra.Command, parse func(args []string) (*original, error),
) *cobra.Command {
	cmd.Args = cobra.ArbitraryArgs // they are all flags, which parse reads
	// Cobra's flags can have neither one dash before a long name nor a value right behind a letter.
	cmd.DisableFlagParsing = true
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o, err := parse(args)
		switch {
		case errors.Is(err, flag.ErrHelp):
			return cmd.Help()
		case errors.Is(err, errEnvironment): // with the original's exit status
			return errors.Join(cmd.Usage(), fail(err))
		case err != nil:
			return err
		case o.version != "":
			_, err := fmt.Fprintln(cmd.OutOrStdout(), o.version)
			return fail(err)
		}
		return o.serve(cmd, p)
	}
	return cmd
}

// serve runs the server.
func (o *original) serve(cmd *cobra.Command, p Process) error {
	load := func() (*config.Config, error) {
		return server.Settings().Load(config.Input{Environ: p.Environ, Flags: o.settings})
	}
	cfg, err := load()
	if err != nil {
		return err
	}
	logger := newLogger(p.Stderr, cfg.Log)
	for _, ignored := range o.ignored {
		logger.Warn("flag of the original server ignored", slog.String("flag", ignored.flag),
			slog.String("reason", ignored.reason))
	}
	if o.pidFile != "" {
		// Scripts of other users read it, too.
		if err := os.WriteFile(o.pidFile, []byte(strconv.Itoa(os.Getpid())), 0o644); err != nil { //nolint:gosec // see above
			return fail(fmt.Errorf("write the process id: %w", err))
		}
		defer func() {
			if err := os.Remove(o.pidFile); err != nil {
				logger.Warn("cannot remove the file of the process id", slog.Any("error", err))
			}
		}()
	}
	if o.ignoresTerminal && p.Signals == nil {
		ignoreTerminal()
	}
	if o.hangupEnds && p.Signals == nil {
		own := make(chan os.Signal, 2)
		signal.Notify(own, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
		defer signal.Stop(own)
		p.Signals, p.HangupEnds = own, true
	}
	return p.serve(cmd.Context(), cfg, logger, load)
}

var errWhole = errors.New("write a whole number")

// checkWhole reports a text that is not a whole number.
func checkWhole(text string) error {
	if _, err := strconv.ParseUint(text, 10, 63); err != nil {
		return errWhole
	}
	return nil
}
