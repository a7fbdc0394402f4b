package cli

import (
	"context"
	"log/slog"
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
second signal ends the process at once with status 1. SIGQUIT prints all goroutines.`,
		Example: `  millrace serve
  millrace serve --config /etc/millrace.toml
  millrace serve --masenko-addr 127.0.0.1:0 --store-durability interval`,
		Args: noArgs,
	}
	s := addSettings(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := s.load(p)
		if err != nil {
			return err
		}
		return p.serve(cmd.Context(), cfg, newLogger(p.Stderr, cfg.Log))
	}
	return cmd
}

// spareThreads is how many threads more than processors may run Go code while every commit is synced: Pebble's wait for the disk
// in system calls, and keep their place for a while. It also means that somebody still waits for the network while all processors are busy. Without
// syncs they would only get into each other's way.
const spareThreads = 1

// serve runs the server until a signal ends it.
func (p Process) serve(ctx context.Context, cfg *config.Config, logger *slog.Logger) error {
	signals := p.Signals
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
	return fail(server.Run(ctx, cfg, server.Options{
		Version: buildVersion().number,
		Logger:  logger,
		Out:     p.Stdout,
		Signals: signals,
		Environ: p.Environ,
	}))
}
