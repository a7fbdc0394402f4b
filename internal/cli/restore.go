package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"millrace/internal/offline"
)

func newRestoreCommand(_ Process) *cobra.Command {
	return &cobra.Command{
		Use:   "restore BACKUP DIR",
		Short: "Create a data directory from a backup",
		Long: `Verify a backup as "millrace check" does, copy it to a new data directory, and verify the files of
the copy. DIR must not exist yet, or be empty: nothing is ever overwritten. The backup is not
changed, and may be on a read-only medium.

Exit status: 0 if the directory is ready for a server, 3 if the backup is damaged, 1 if something
else went wrong, 2 if the command line is wrong. Unless it is 0, nothing is left in DIR.`,
		Example: `  millrace restore /backup/monday /var/lib/millrace/data
  millrace restore ./monday ./restored && millrace --data-dir ./restored`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("%q takes a backup and a new data directory, but got %d arguments", cmd.CommandPath(),
					len(args))
			}
			return nil
		},
		ValidArgsFunction: completeDirs,
		RunE: func(cmd *cobra.Command, args []string) error {
			bar := newProgress(cmd.ErrOrStderr())
			report, err := offline.Restore(cmd.Context(), args[0], args[1], bar.offline)
			bar.stop()
			warnUnlocked(cmd, &report, err)
			if err != nil {
				return verdict(err)
			}
			jobs := uint64(0)
			for _, n := range report.Jobs() {
				jobs += n
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "Restored %s in %s to %s.\n", plural(jobs, "job"),
				plural(len(report.Queues), "queue"), args[1])
			return fail(err)
		},
	}
}
