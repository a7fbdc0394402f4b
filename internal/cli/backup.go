package cli

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/internal/admin"
	"millrace/internal/apiclient"
)

func newBackupCommand(p Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup [DIR]",
		Short: "Have a running server write a backup",
		Long: `Have a running server write a copy of all its data to DIR, which must not exist yet. The server goes on working;
the copy has everything that was acknowledged before. DIR is a directory of the server's machine, outside of the data
directory, which the server must be allowed to make. On the same disk it takes little time and at first no space.

A server with a place of backups (backup.dir) writes only below it: DIR is relative to that place, and left out it is
called by the time. The path is printed. Without such a place DIR is needed.

"millrace check DIR" verifies a backup, "millrace restore DIR DATA" makes a data directory of it.`,
		Example: `  millrace backup /backup/monday
  millrace backup "/backup/$(date +%F)" && millrace check "/backup/$(date +%F)"
  millrace backup --json | jq -r .dir`,
		Args:              atMostOne("a new directory"),
		ValidArgsFunction: completeDirs,
	}
	f := addAPI(cmd, p)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := f.client()
		if err != nil {
			return err
		}
		defer c.Close()
		dir := strings.Join(args, "")
		if !filepath.IsAbs(dir) {
			storage, err := c.Storage(cmd.Context())
			if err != nil {
				return apiError(err)
			}
			if storage.BackupDir == "" {
				if dir, err = placeOf(dir, c.URL()); err != nil {
					return err
				}
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

// placeOf returns the directory of the server's machine that is meant by one of this machine.
func placeOf(dir, server string) (string, error) {
	switch {
	case dir == "":
		return "", errors.New("name a new directory: the server has no place of its own for backups (backup.dir)")
	case !onThisMachine(server):
		return "", fmt.Errorf("%q is a directory of the server's machine, %s: write its whole path", dir, server)
	}
	dir, err := filepath.Abs(dir)
	return dir, fail(err)
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
