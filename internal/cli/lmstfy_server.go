package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
)

// newLmstfyServerCommand returns the command that takes the flags of the original LMSTFY server.
func newLmstfyServerCommand(p Process) *cobra.Command {
	return newOriginalCommand(p, &cobra.Command{
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
	}, parseLmstfyFlags)
}

// lmstfyLevels are what -bt may be.
var lmstfyLevels = []string{"panic", "fatal", "error", "warn", "warning", "info", "debug", "trace"}

func parseLmstfyFlags(args []string) (*original, error) {
	o := newOriginal("lmstfy.addr", "lmstfy.admin_addr")
	o.settings["lmstfy.auth"] = "token"
	o.hangupEnds = true
	flags := newFlags("lmstfy-server")
	flags.Func("c", "", o.set("lmstfy.config"))
	flags.BoolFunc("sv", "", func(text string) error {
		skip, err := strconv.ParseBool(text)
		if skip {
			o.settings["lmstfy.auth"] = "off"
		}
		return err
	})
	flags.StringVar(&o.pidFile, "p", "", "")
	version := flags.Bool("v", false, "")
	flags.Func("bt", "", func(level string) error {
		if !slices.Contains(lmstfyLevels, level) {
			return errors.New("choose a level such as warn or error")
		}
		return nil
	})
	if err := parseAll(flags, args); err != nil {
		return nil, err
	}
	if *version {
		b := buildVersion()
		o.version = fmt.Sprintf("version: %s\nbuilt at: %s\ncommit: %s", b.number, b.date, b.commit)
	}
	return o, nil
}
