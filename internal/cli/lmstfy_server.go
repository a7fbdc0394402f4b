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

// newLmstfyServerCommand returns the command that takes the flags of the original
// LMSTFY server, so that a script that started it starts this one.
func newLmstfyServerCommand(p Process) *cobra.Command {
	return &cobra.Command{
		Use:   "lmstfy-server",
		Short: "Start the server with the flags of the original lmstfy-server",
		Long: `Start the server for LMSTFY clients only, with the flags of the original lmstfy-server.
They may have one or two dashes:

  -c FILE    configuration file of the original server: lmstfy.config
  -sv        development mode, no token is needed: lmstfy.auth = off
  -p FILE    file to write the process id to; it is removed at the end
  -v         print the version and exit
  -bt LEVEL  checked and ignored: errors are logged with all that is known

Unless -sv is given clients need tokens, which the admin API gives out. Redis settings
of the file are ignored: jobs are kept in data.dir, which like everything else that the
file does not know comes from the environment, the file that MILLRACE_CONFIG names, and
the defaults of "millrace serve". Jobs and tokens in Redis are not read.

SIGHUP stops the server, too.`,
		Example: `  millrace lmstfy-server -c /etc/lmstfy.toml -p /run/lmstfy.pid`,
		Args:    cobra.ArbitraryArgs, // they are all flags, which this command reads itself
		// One dash before a long name is not something that cobra's flags can have.
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := parseLmstfyFlags(args)
			if errors.Is(err, flag.ErrHelp) {
				return cmd.Help()
			}
			if err != nil {
				return err
			}
			if f.version {
				b := buildVersion()
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "version: %s\nbuilt at: %s\ncommit: %s\n", b.number, b.date,
					b.commit)
				return fail(err)
			}
			load := func() (*config.Config, error) {
				return server.Settings().Load(config.Input{Environ: p.Environ, Flags: f.settings})
			}
			cfg, err := load()
			if err != nil {
				return err
			}
			return f.serve(cmd, p, cfg, load)
		},
	}
}

// lmstfyFlags are the flags of the original server in our own terms.
type lmstfyFlags struct {
	settings map[string]string // by key
	pidFile  string
	version  bool
}

// lmstfyLevels are what -bt may be.
var lmstfyLevels = []string{"panic", "fatal", "error", "warn", "warning", "info", "debug", "trace"}

func parseLmstfyFlags(args []string) (*lmstfyFlags, error) {
	f := &lmstfyFlags{settings: map[string]string{"lmstfy.auth": "token"}}
	for _, k := range server.Settings().Keys() {
		// Whoever started the original expects that nothing else is served.
		if k.Kind == config.KindAddresses && k.Name != "lmstfy.addr" && k.Name != "lmstfy.admin_addr" {
			f.settings[k.Name] = config.AddressOff
		}
	}
	flags := flag.NewFlagSet("lmstfy-server", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // Main prints the error, cobra the help
	flags.Func("c", "", func(path string) error {
		f.settings["lmstfy.config"] = path
		return nil
	})
	flags.BoolFunc("sv", "", func(text string) error {
		skip, err := strconv.ParseBool(text)
		if skip {
			f.settings["lmstfy.auth"] = "off"
		}
		return err
	})
	flags.StringVar(&f.pidFile, "p", "", "")
	flags.BoolVar(&f.version, "v", false, "")
	flags.Func("bt", "", func(level string) error {
		if !slices.Contains(lmstfyLevels, level) {
			return errors.New("choose a level such as warn or error")
		}
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("%q takes no arguments, but got %q", "millrace lmstfy-server", flags.Arg(0))
	}
	return f, nil
}

// serve runs the server with a file that holds the process id, if one is asked for.
func (f *lmstfyFlags) serve(
	cmd *cobra.Command, p Process, cfg *config.Config, load func() (*config.Config, error),
) error {
	logger := newLogger(p.Stderr, cfg.Log)
	if f.pidFile != "" {
		// Scripts of other users read it, too.
		if err := os.WriteFile(f.pidFile, []byte(strconv.Itoa(os.Getpid())), 0o644); err != nil { //nolint:gosec // see above
			return fail(fmt.Errorf("write the process id: %w", err))
		}
		defer func() {
			if err := os.Remove(f.pidFile); err != nil {
				logger.Warn("cannot remove the file of the process id", slog.Any("error", err))
			}
		}()
	}
	if p.Signals == nil {
		own := make(chan os.Signal, 2)
		signal.Notify(own, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
		defer signal.Stop(own)
		p.Signals, p.HangupEnds = own, true // as with the original
	}
	return p.serve(cmd.Context(), cfg, logger, load)
}
