package cli

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/spf13/cobra"

	"millrace/internal/config"
	"millrace/internal/server"
)

func newServeCommand(p Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Start the server (the same as no command)",
		Long: `Start the server and serve until SIGTERM or SIGINT.

The addresses it listens on, the data directory and the durability are printed on
standard output once it is ready; the log goes to standard error.

The first signal drains: no new connections, waiting fetches are answered as empty,
replies in progress are finished, everything is written to disk, exit status 0. A
second signal ends the process at once with status 1. SIGHUP reads the configuration
again and takes over passwords and tokens of operators, TLS files and the level of the
log; if anything else has changed, or is wrong, the log says so and nothing changes.
SIGQUIT prints all goroutines.`,
		Example: `  millrace serve
  millrace serve --config /etc/millrace.toml
  millrace serve --masenko-addr 127.0.0.1:0 --store-durability interval`,
		Args: noArgs,
	}
	s := addSettings(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		load := func() (*config.Config, error) { return s.load(p) }
		cfg, err := load()
		if err != nil {
			return err
		}
		return p.serve(cmd.Context(), cfg, newLogger(p.Stderr, cfg.Log), load)
	}
	return cmd
}

// spareThreads is how many threads more than processors may run Go code while every commit is synced: Pebble's wait for
// the disk in system calls, and keep their place for a while. It also means that somebody still waits for the network
// while all processors are busy. Without syncs they would only get into each other's way.
const spareThreads = 1

// serve runs the server until a signal ends it. SIGHUP has it load its configuration again.
func (p Process) serve(
	ctx context.Context, cfg *config.Config, logger serverLog, load func() (*config.Config, error),
) error {
	return p.run(ctx, cfg, logger, load, server.Options{})
}

// run does the same with more options.
func (p Process) run(
	ctx context.Context, cfg *config.Config, logger serverLog, load func() (*config.Config, error), o server.Options,
) error {
	signals, reloads := p.Signals, p.Reloads
	if reloads == nil && !p.HangupEnds {
		// It is never given up: until the process has gone, a terminal that hangs up must not end it.
		hangups := make(chan os.Signal, 1)
		signal.Notify(hangups, syscall.SIGHUP)
		reloads = hangups
	}
	if signals == nil {
		own := make(chan os.Signal, 2)
		signal.Notify(own, syscall.SIGINT, syscall.SIGTERM)
		defer signal.Stop(own)
		signals = own
	}
	if _, set := os.LookupEnv("GOGC"); !set {
		paceGarbage()
	}
	if _, set := os.LookupEnv("GOMAXPROCS"); !set && cfg.Store.Durability == "fsync" {
		runtime.SetDefaultGOMAXPROCS() // so that a second server in one process adds nothing
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + spareThreads)
	}
	o.Version, o.Logger, o.Out, o.Signals, o.Environ = buildVersion().number, logger.Logger, p.Stdout,
		signals, p.Environ
	o.Reloads, o.Reload, o.SetLogLevel = reloads, load, logger.setLevel
	return fail(server.Run(ctx, cfg, o))
}
