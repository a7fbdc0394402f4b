package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"millrace/internal/config"
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

// newFaktoryServerCommand returns the command that takes the flags of the original Faktory server.
func newFaktoryServerCommand(p Process) *cobra.Command {
	return newOriginalCommand(p, &cobra.Command{
		Use:     "faktory-server",
		Aliases: []string{"faktory"},
		Short:   "Start the server with the flags of the original faktory",
		Long:    faktoryServerLong,
		Example: `  millrace faktory-server -b :7419 -e production -d /var/lib/millrace`,
	}, func(args []string) (*original, error) { return parseFaktoryFlags(args, p) })
}

// faktoryCompatible is the version of the original whose flags these are.
const faktoryCompatible = "1.10.0"

// errEnvironment means that -e names none of the environments.
var errEnvironment = errors.New("invalid environment: choose development, staging or production")

func parseFaktoryFlags(args []string, p Process) (*original, error) {
	o := newOriginal("faktory.addr", "web.addr")
	o.ignoresTerminal = true
	flags := newFlags("faktory-server")
	for name, key := range map[string]string{
		"b": "faktory.addr", "d": "data.dir", "c": "faktory.config_dir",
		"e": "faktory.environment",
	} {
		flags.Func(name, "", o.set(key))
	}
	flags.Func("l", "", func(level string) error {
		if !slices.Contains([]string{"error", "warn", "info", "debug"}, level) {
			return errors.New("choose error, warn, info or debug")
		}
		return o.set("log.level")(level)
	})
	flags.Func("w", "", func(addr string) error {
		if addr == ":0" {
			addr = config.AddressOff
		}
		return o.set("web.addr")(addr)
	})
	version := flags.Bool("v", false, "")
	if err := parseAll(flags, args); err != nil {
		return nil, err
	}
	if *version {
		o.version = fmt.Sprintf("Millrace %s (Faktory %s)", buildVersion().number, faktoryCompatible)
	}
	return o, faktoryDefaults(o.settings, p)
}

// faktoryDefaults checks the environment and finds the configuration directory that belongs to it.
func faktoryDefaults(settings map[string]string, p Process) error {
	environment := orElse(settings["faktory.environment"], p.env("FAKTORY_ENV"))
	dir := "/etc/faktory"
	switch environment {
	case "", "development":
		if dir = p.env("HOME"); dir != "" {
			dir = filepath.Join(dir, ".faktory")
		}
	case "staging", "production":
	default:
		return fmt.Errorf("%w, not %q", errEnvironment, environment)
	}
	if _, given := settings["faktory.config_dir"]; given || p.env("MILLRACE_FAKTORY_CONFIG_DIR") != "" || dir == "" {
		return nil
	}
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		settings["faktory.config_dir"] = dir
	}
	return nil
}
