package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/internal/api"
	"millrace/internal/apiclient"
)

func newBackupCommand(p Process) *cobra.Command {
	return asking(p, &cobra.Command{
		Use:   "backup [DIR]",
		Short: "Have a running server write a backup",
		Long: `Have a running server write a copy of all its data to DIR, which must not exist yet. The server goes
on working. The copy has everything that was acknowledged before.

DIR is a directory of the server's machine. It must be below backup.dir of the server's
configuration. Without that setting backups go beside the data directory, into one of the same name
with "-backups" at its end. A relative DIR is relative to that place. Without DIR the backup is
named after the current time. The command prints the path.

On the same disk a backup takes little time, and at first no space.

"millrace check DIR" verifies a backup, "millrace restore DIR DATA" makes a data directory of it.`,
		Example: `  millrace backup monday
  millrace check "$(millrace backup --json | jq -r .dir)"`,
		Args:              atMostOne("a new directory"),
		ValidArgsFunction: completeDirs,
	}, func(cmd *cobra.Command, c *apiclient.Client, asJSON bool, args []string) error {
		b, err := waitForBackup(cmd, c, strings.Join(args, ""))
		if err != nil {
			return err
		}
		return say(cmd, asJSON, b, "%s: %s in %s, %.1f s", b.Dir, sizeText(b.Bytes), plural(b.Files, "file"), b.Seconds)
	})
}

// waitForBackup has the backup made, and shows that it is being made.
func waitForBackup(cmd *cobra.Command, c *apiclient.Client, dir string) (api.Backup, error) {
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	bar := newProgress(cmd.ErrOrStderr())
	shown := make(chan struct{})
	go func() {
		defer close(shown)
		for seconds := uint64(1); sleep(ctx, time.Second); seconds++ {
			bar.update("seconds", seconds, 0)
		}
	}()
	b, err := c.Backup(ctx, dir)
	cancel()
	<-shown
	bar.stop()
	return b, err
}
