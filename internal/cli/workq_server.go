package cli

import (
	"errors"
	"strconv"

	"github.com/spf13/cobra"
)

// newWorkqServerCommand returns the command that takes the flags of the original Workq server.
func newWorkqServerCommand(p Process) *cobra.Command {
	return newOriginalCommand(p, &cobra.Command{
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
		Example: `  millrace workq-server -listen 127.0.0.1:9922 -cmdlog-path /var/lib/workq \
    -cmdlog-sync interval -cmdlog-sync-int 1000`,
	}, parseWorkqFlags)
}

// workqDurability is what the original's ways of syncing are called here.
var workqDurability = map[string]string{"always": "fsync", "interval": "interval", "os": "none"}

func parseWorkqFlags(args []string) (*original, error) {
	o := newOriginal("workq.addr")
	flags := newFlags("workq-server")
	flags.Func("listen", "", o.set("workq.addr"))
	flags.Func("cmdlog-path", "", o.set("data.dir"))
	flags.Func("cmdlog-sync", "", func(text string) error {
		durability, ok := workqDurability[text]
		if !ok {
			return errors.New("choose always, interval or os")
		}
		o.settings["store.durability"] = durability
		return nil
	})
	flags.Func("cmdlog-sync-int", "", func(text string) error {
		// The original wants 0 along with -cmdlog-sync always.
		if n, err := strconv.ParseUint(text, 10, 63); err != nil || n > 0 {
			o.settings["store.sync_interval"] = text + "ms"
		}
		return checkWhole(text)
	})
	for _, name := range []string{"cmdlog-seg-size", "cmdlog-clean-int"} {
		flags.Func(name, "", func(text string) error {
			o.ignored = append(o.ignored, ignoredFlag{"-" + name, ownFiles})
			return checkWhole(text)
		})
	}
	return o, parseAll(flags, args)
}
