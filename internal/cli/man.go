package cli

import (
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// newManCommand writes the manual pages, for packages.
func newManCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write the manual pages of all commands into a directory",
		Long: `Write the manual pages of all commands, millrace.1 and one for each command, into a directory that
is there.`,
		Example: `  millrace man /usr/local/share/man/man1
  millrace man . && man ./millrace-queue.1`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			root.DisableAutoGenTag = true
			root.Long += manFiles
			never := time.Unix(0, 0).UTC() // the same build writes the same bytes
			return fail(doc.GenManTree(root, &doc.GenManHeader{
				Section: "1",
				Source:  "millrace " + buildVersion().number, Manual: "User commands", Date: &never,
			}, args[0]))
		},
	}
}

// manFiles is what only the manual tells.
const manFiles = `

Files of the packages: /etc/millrace/millrace.toml is the configuration of the service, every key with its default.
/etc/default/millrace may set environment variables of the service. The jobs are in /var/lib/millrace/data.

Signals: SIGTERM and SIGINT drain and stop the server; a second one ends it at once. SIGHUP reads the
configuration again. SIGQUIT prints all goroutines.`
