package cli

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"millrace/internal/config"
	"millrace/internal/server"
)

const faktoryServerLong = `Start the server for Faktory clients only, with the flags of the original faktory. They
may have one or two dashes:

  -b HOST:PORT   address to listen on: faktory.addr (127.0.0.1:7419; ":7419" is every interface)
  -w HOST:PORT   address of the web UI: web.addr (":0" turns it off)
  -e NAME        development, staging or production: faktory.environment (FAKTORY_ENV, else development)
  -l LEVEL       error, warn, info or debug: log.level
  -d DIR         directory of the data: data.dir
  -c DIR         configuration directory of the original: faktory.config_dir
                 (~/.faktory, or in staging and production /etc/faktory, if there is one)
  -v             print the version and exit
  -h             print this help

A flag that is not given leaves its setting to the environment, the file that
MILLRACE_CONFIG names, and the defaults of "millrace serve": without -d data is kept in
./millrace-data. FAKTORY_PASSWORD, FAKTORY_ENV, FAKTORY_SKIP_PASSWORD and
DD_DOGSTATSD_URL are heeded.
Jobs that the original keeps in Redis are not read, and its files must not lie in the
directory.`

// newFaktoryServerCommand returns the command that takes the flags of the original
// Faktory server, so that a script that started it starts this one.
func newFaktoryServerCommand(p Process) *cobra.Command {
	return &cobra.Command{
		Use:     "faktory-server",
		Aliases: []string{"faktory"},
		Short:   "Start the server with the flags of the original faktory",
		Long:    faktoryServerLong,
		Example: `  millrace faktory-server -b :7419 -e production -d /var/lib/millrace`,
		Args:    cobra.ArbitraryArgs, // they are all flags, which this command reads itself
		// The original's flags may have one dash or two.
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := parseFaktoryFlags(args, p.Environ)
			if errors.Is(err, flag.ErrHelp) {
				return cmd.Help()
			}
			if errors.Is(err, errEnvironment) { // with the original's exit status
				return errors.Join(cmd.Usage(), fail(err))
			}
			if err != nil {
				return err
			}
			if f.version {
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "Millrace %s (Faktory %s)\n", buildVersion().number,
					faktoryCompatible)
				return fail(err)
			}
			load := func() (*config.Config, error) {
				return server.Settings().Load(config.Input{Environ: p.Environ, Flags: f.settings})
			}
			cfg, err := load()
			if err != nil {
				return err
			}
			if p.Signals == nil {
				ignoreTerminal()
			}
			logger := newLogger(p.Stderr, cfg.Log)
			return p.serve(cmd.Context(), cfg, logger, load)
		},
	}
}

// faktoryCompatible is the version of the original whose flags these are.
const faktoryCompatible = "1.10.0"

// errEnvironment means that -e names none of the environments.
var errEnvironment = errors.New("invalid environment: choose development, staging or production")

// faktoryFlags are the flags of the original server in our own terms.
type faktoryFlags struct {
	settings map[string]string // by key
	version  bool
}

func parseFaktoryFlags(args, environ []string) (*faktoryFlags, error) {
	f := &faktoryFlags{settings: make(map[string]string)}
	for _, k := range server.Settings().Keys() {
		// Whoever started the original expects that nothing else is served.
		if k.Kind == config.KindAddresses && k.Name != "faktory.addr" && k.Name != "web.addr" {
			f.settings[k.Name] = config.AddressOff
		}
	}
	flags := flag.NewFlagSet("faktory-server", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // Main prints the error, cobra the help
	for name, key := range map[string]string{
		"b": "faktory.addr", "d": "data.dir", "c": "faktory.config_dir",
		"e": "faktory.environment",
	} {
		flags.Func(name, "", func(text string) error {
			f.settings[key] = text
			return nil
		})
	}
	flags.Func("l", "", func(level string) error {
		if !slices.Contains([]string{"error", "warn", "info", "debug"}, level) {
			return errors.New("choose error, warn, info or debug")
		}
		f.settings["log.level"] = level
		return nil
	})
	flags.Func("w", "", func(addr string) error {
		if addr == ":0" {
			addr = config.AddressOff
		}
		f.settings["web.addr"] = addr
		return nil
	})
	flags.BoolVar(&f.version, "v", false, "")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("%q takes no arguments, but got %q", "millrace faktory-server", flags.Arg(0))
	}
	return f, f.defaults(environ)
}

// defaults checks the environment and finds the configuration directory that belongs to it.
func (f *faktoryFlags) defaults(environ []string) error {
	lookup := func(name string) string {
		for _, entry := range environ {
			if value, ok := strings.CutPrefix(entry, name+"="); ok {
				return value
			}
		}
		return ""
	}
	environment := f.settings["faktory.environment"]
	if environment == "" {
		environment = lookup("FAKTORY_ENV")
	}
	dir := "/etc/faktory"
	switch environment {
	case "", "development":
		if dir = lookup("HOME"); dir != "" {
			dir = filepath.Join(dir, ".faktory")
		}
	case "staging", "production":
	default:
		return fmt.Errorf("%w, not %q", errEnvironment, environment)
	}
	if _, given := f.settings["faktory.config_dir"]; given || lookup("MILLRACE_FAKTORY_CONFIG_DIR") != "" || dir == "" {
		return nil
	}
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		f.settings["faktory.config_dir"] = dir
	}
	return nil
}
