package cli

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"millrace/internal/admin"
	"millrace/internal/apiclient"
)

func newBackupCommand(p Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup DIR",
		Short: "Have a running server write a backup",
		Long: `Have a running server write a copy of all its data to DIR, which must not exist yet. The server goes on working;
the copy has everything that was acknowledged before. DIR is a directory of the server's machine, outside of the data
directory, which the server must be allowed to make. On the same disk it takes little time and at first no space.

"millrace check DIR" verifies a backup, "millrace restore DIR DATA" makes a data directory of it.`,
		Example: `  millrace backup /backup/monday
  millrace backup "/backup/$(date +%F)" && millrace check "/backup/$(date +%F)"`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("%q takes one new directory, but got %d arguments", cmd.CommandPath(), len(args))
			}
			return nil
		},
		ValidArgsFunction: completeDirs,
	}
	f := addAPI(cmd, p)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := f.client()
		if err != nil {
			return err
		}
		defer c.Close()
		dir := args[0]
		if !filepath.IsAbs(dir) {
			if !onThisMachine(c.URL()) {
				return fmt.Errorf("%q is a directory of the server's machine, %s: write its whole path", dir, c.URL())
			}
			if dir, err = filepath.Abs(dir); err != nil {
				return fail(err)
			}
		}
		b, err := waitForBackup(cmd, c, dir)
		if err != nil {
			return apiError(err)
		}
		if f.asJSON {
			return fail(printJSON(cmd.OutOrStdout(), b))
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s in %s, %.1f s\n", b.Dir, sizeText(b.Bytes), plural(b.Files, "file"), b.Seconds)
		return fail(err)
	}
	return cmd
}

// onThisMachine reports whether an address is one of loopback.
func onThisMachine(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && ip.IsLoopback()
}

// waitForBackup has the backup made, and shows that it is being made.
func waitForBackup(cmd *cobra.Command, c *apiclient.Client, dir string) (admin.Backup, error) {
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
