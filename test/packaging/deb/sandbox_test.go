package deb

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"millrace/test/harness"
)

// confined starts the server in a mount namespace in which only the state directory can be written, as
// ProtectSystem=strict and StateDirectory= of the unit have it.
const confined = `set -e
state=$1; shift
mount --bind "$state" "$state"
for place in "$(findmnt --noheadings --output TARGET --target "$state/..")" / /tmp; do
	mountpoint --quiet "$place" && mount -o remount,bind,ro "$place"
done
exec "$@"`

// The packaged service can back up to its default place, and says why it cannot back up elsewhere.
func TestBackupInSandbox(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	tool(t, "dpkg-deb", "--extract", built, root)
	bin, file := filepath.Join(root, "usr/bin/millrace"), filepath.Join(root, "etc/millrace/millrace.toml")
	state := filepath.Join(root, "var/lib/millrace")
	if err := os.MkdirAll(state, 0o750); err != nil {
		t.Fatal(err)
	}
	ports, err := harness.FreePorts(t.Context(), bin)
	if err != nil {
		t.Fatal(err)
	}
	start := func(more ...string) *harness.Server {
		t.Helper()
		args := []string{
			"--mount", "sh", "-c", confined, "sh", state, bin, "serve", "--config", file, "--data-dir",
			filepath.Join(state, "data"),
		}
		if os.Geteuid() != 0 {
			args = append([]string{"--map-root-user"}, args...)
		}
		s, err := harness.Start(t.Context(), harness.Options{
			Bin: "unshare", Args: append(args, more...), Env: ports,
			Also: []string{"web"},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Kill)
		return s
	}
	stop := func(s *harness.Server) {
		t.Helper()
		if err := s.Stop(harness.StopPatience); err != nil {
			t.Fatal(err)
		}
	}

	s := start()
	tool(t, bin, "push", "--api", "http://"+s.Addrs["web"], "q", "1")
	tool(t, bin, "backup", "--api", "http://"+s.Addrs["web"], "monday")
	stop(s)
	if got := tool(t, bin, "check", filepath.Join(state, "data-backups/monday")); !strings.Contains(got, "is sound") {
		t.Errorf("check of the backup: %s", got)
	}

	elsewhere := filepath.Join(root, "backup")
	s = start("--backup-dir", elsewhere)
	out, err := exec.CommandContext(t.Context(), bin, "backup", "--api", "http://"+s.Addrs["web"],
		"monday").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "read-only file system") {
		t.Errorf("a backup outside of the sandbox: %v\n%s", err, out)
	}
	stop(s)
	if _, err := os.Stat(elsewhere); err == nil {
		t.Errorf("the sandbox let the server write %s", elsewhere)
	}
}
