package cli

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strconv"

	"github.com/spf13/cobra"

	"millrace/internal/config"
	"millrace/internal/server"
)

// newWorkqServerCommand returns the command that takes the flags of the original
// Workq server, so that a script that started it starts this one.
func newWorkqServerCommand(p Process) *cobra.Command {
	return &cobra.Command{
		Use:   "workq-server",
		Short: "Start the server with the flags of the original workq-server",
		Long: `Start the server for Workq clients only, with the flags of the original workq-server. They
may have one or two dashes:

  -listen HOST:PORT                        address to listen on: workq.addr (127.0.0.1:9922)
  -cmdlog-path DIR                         directory of the data: data.dir
  -cmdlog-sync always|interval|os          store.durability: fsync, interval, none
  -cmdlog-sync-int MILLISECONDS            store.sync_interval, with -cmdlog-sync interval
  -cmdlog-seg-size BYTES                   checked and ignored: the store sizes its files itself
  -cmdlog-clean-int MILLISECONDS           checked and ignored: the store cleans up by itself

A flag that is not given leaves its setting to the environment, the file that
MILLRACE_CONFIG names, and the defaults of "millrace serve": data is kept in
./millrace-data also without -cmdlog-path, and every reply is synced without
-cmdlog-sync. Logs of the original are not read and must not lie in the directory.`,
		Example: `  millrace workq-server -listen 127.0.0.1:9922 -cmdlog-path /var/lib/workq -cmdlog-sync interval -cmdlog-sync-int 1000`,
		Args:    cobra.ArbitraryArgs, // they are all flags, which this command reads itself
		// One dash before a long name is not something that cobra's flags can have.
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := parseWorkqFlags(args)
			if errors.Is(err, flag.ErrHelp) {
				return cmd.Help()
			}
			if err != nil {
				return err
			}
			load := func() (*config.Config, error) {
				return server.Settings().Load(config.Input{Environ: p.Environ, Flags: w.settings})
			}
			cfg, err := load()
			if err != nil {
				return err
			}
			logger := newLogger(p.Stderr, cfg.Log)
			for _, name := range w.ignored {
				logger.Warn("flag of the original server ignored", slog.String("flag", "-"+name),
					slog.String("reason", "the store looks after its files by itself"))
			}
			return p.serve(cmd.Context(), cfg, logger, load)
		},
	}
}

// workqFlags are the flags of the original server in our own terms.
type workqFlags struct {
	settings map[string]string // by key
	ignored  []string
}

// workqDurability is what the original's ways of syncing are called here.
var workqDurability = map[string]string{"always": "fsync", "interval": "interval", "os": "none"}

func parseWorkqFlags(args []string) (*workqFlags, error) {
	w := &workqFlags{settings: make(map[string]string)}
	for _, k := range server.Settings().Keys() {
		// Whoever started the original expects that nothing else is served.
		if k.Kind == config.KindAddresses && k.Name != "workq.addr" {
			w.settings[k.Name] = config.AddressOff
		}
	}
	set := func(key string) func(string) error {
		return func(text string) error {
			w.settings[key] = text
			return nil
		}
	}
	ignore := func(name string) func(string) error {
		return func(text string) error {
			w.ignored = append(w.ignored, name)
			return checkWhole(text)
		}
	}
	flags := flag.NewFlagSet("workq-server", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // Main prints the error, cobra the help
	flags.Func("listen", "", set("workq.addr"))
	flags.Func("cmdlog-path", "", set("data.dir"))
	flags.Func("cmdlog-sync", "", func(text string) error {
		durability, ok := workqDurability[text]
		if !ok {
			return errors.New("choose always, interval or os")
		}
		w.settings["store.durability"] = durability
		return nil
	})
	flags.Func("cmdlog-sync-int", "", func(text string) error {
		// The original wants 0 along with -cmdlog-sync always.
		if n, err := strconv.ParseUint(text, 10, 63); err != nil || n > 0 {
			w.settings["store.sync_interval"] = text + "ms"
		}
		return checkWhole(text)
	})
	flags.Func("cmdlog-seg-size", "", ignore("cmdlog-seg-size"))
	flags.Func("cmdlog-clean-int", "", ignore("cmdlog-clean-int"))
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("%q takes no arguments, but got %q", "millrace workq-server", flags.Arg(0))
	}
	return w, nil
}

// checkWhole reports a text that is not a whole number.
func checkWhole(text string) error {
	if _, err := strconv.ParseUint(text, 10, 63); err != nil {
		return errWhole
	}
	return nil
}
