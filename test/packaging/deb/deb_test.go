package deb

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	// The server is built by a script, which the go tool cannot see: without this
	// import it would call a test result of an older server current.
	_ "millrace/internal/cli"
	"millrace/test/harness"
)

// built is the package under test.
var built string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	for _, tool := range []string{"dpkg", "dpkg-deb"} {
		if _, err := exec.LookPath(tool); err != nil {
			fmt.Fprintf(os.Stderr, "no %s here: the Debian package is not tested\n", tool)
			return 0
		}
	}
	dir, err := os.MkdirTemp("", "millrace-deb-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir) //nolint:errcheck // nothing to be done about it
	build := exec.CommandContext(context.Background(),
		filepath.Join("..", "..", "..", "packaging", "debian", "build.sh"), dir)
	build.Stderr = os.Stderr
	out, err := build.Output()
	if err != nil {
		fmt.Fprintln(os.Stderr, "build the package:", err)
		return 1
	}
	built = strings.TrimSpace(string(out))
	return m.Run()
}

// tool runs one of Debian's tools and returns what it prints.
func tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

func TestControl(t *testing.T) {
	t.Parallel()
	field := func(name string) string { return strings.TrimSpace(tool(t, "dpkg-deb", "--field", built, name)) }
	if got := field("Package"); got != "millrace" {
		t.Errorf("package %q", got)
	}
	version := field("Version")
	tool(t, "dpkg", "--validate-version", version)
	if want := fmt.Sprintf("millrace_%s_%s.deb", version, field("Architecture")); filepath.Base(built) != want {
		t.Errorf("the file is %s, want %s", filepath.Base(built), want)
	}
	if info := tool(t, "dpkg-deb", "--info", built); regexp.MustCompile(`@[A-Z]+@`).MatchString(info) {
		t.Errorf("a placeholder is left:\n%s", info)
	}
}

func TestContent(t *testing.T) {
	t.Parallel()
	list := tool(t, "dpkg-deb", "--contents", built)
	for _, want := range []string{
		`-rwxr-xr-x root/root .* \./usr/bin/millrace\n`,
		`-rw-r--r-- root/root .* \./etc/millrace/millrace\.toml\n`,
		`-rw-r--r-- root/root .* \./usr/lib/systemd/system/millrace\.service\n`,
		`\./usr/lib/systemd/system/millrace-faktory\.socket\n`,
		`\./usr/share/man/man1/millrace\.1\.gz\n`,
		`\./usr/share/doc/millrace/copyright\n`,
		`\./usr/share/bash-completion/completions/millrace\n`,
		`drwxr-xr-x root/root .* \./\n`,
	} {
		if !regexp.MustCompile(want).MatchString(list) {
			t.Errorf("no %s in\n%s", want, list)
		}
	}
}

// install installs the package below a new root. Without root's rights it only unpacks it.
func install(t *testing.T) (root string, dpkg func(args ...string) string) {
	t.Helper()
	root = t.TempDir()
	if os.Geteuid() != 0 {
		tool(t, "dpkg-deb", "--extract", built, root)
		return root, nil
	}
	for _, dir := range []string{"var/lib/dpkg/info", "var/lib/dpkg/updates", "etc", "home"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"var/lib/dpkg/status", "etc/passwd", "etc/group", "etc/shadow", "etc/gshadow"} {
		if err := os.WriteFile(filepath.Join(root, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	dpkg = func(args ...string) string {
		t.Helper()
		// There are no other packages and no shell below the root.
		return tool(t, "dpkg", append([]string{"--root=" + root, "--force-script-chrootless", "--force-depends"},
			args...)...)
	}
	dpkg("--install", built)
	return root, dpkg
}

func TestInstall(t *testing.T) {
	t.Parallel()
	root, dpkg := install(t)
	bin := filepath.Join(root, "usr/bin/millrace")
	file := filepath.Join(root, "etc/millrace/millrace.toml")
	if dpkg != nil {
		checkInstalled(t, root, file)
	}

	version := strings.TrimSpace(tool(t, "dpkg-deb", "--field", built, "Version"))
	if got := tool(t, bin, "version"); !strings.HasPrefix(got, "millrace "+version+" ") {
		t.Errorf("the binary says %q, the package %q", got, version)
	}
	if got := tool(t, bin, "config", "print", "--config",
		file); !regexp.MustCompile(`data\.dir +/var/lib/millrace/data`).MatchString(got) {
		t.Errorf("the configuration has another data directory:\n%s", got)
	}
	tool(t, bin, "config", "validate", "--config", file)

	ports, err := harness.FreePorts(t.Context(), bin)
	if err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(root, "var/lib/millrace/data")
	s, err := harness.Start(t.Context(), harness.Options{
		Bin:  bin,
		Args: []string{"serve", "--config", file, "--data-dir", data}, Env: ports,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	c, err := harness.Dial(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if _, err := c.Push("q", "job"); err != nil {
		t.Error(err)
	}
	if err := s.Stop(harness.StopPatience); err != nil {
		t.Error(err)
	}
	if got := tool(t, bin, "check", data); !strings.Contains(got, "is sound") {
		t.Errorf("check: %s", got)
	}
	if dpkg != nil {
		checkRemoved(t, root, bin, file, data, dpkg)
	}
}

// checkInstalled looks at what the scripts of the package have done.
func checkInstalled(t *testing.T, root, file string) {
	t.Helper()
	users, err := os.ReadFile(filepath.Join(root, "etc/passwd"))
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`(?m)^millrace:x:\d+:\d+:[^:]*:/var/lib/millrace:/usr/sbin/nologin$`).Match(users) {
		t.Errorf("the user is missing:\n%s", users)
	}
	for path, want := range map[string]fs.FileMode{file: 0o640, filepath.Dir(file): 0o750} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want %v", path, info.Mode(), err, want)
		}
	}
}

// checkRemoved takes the package away: first all but the configuration, then that too.
// The jobs stay.
func checkRemoved(t *testing.T, root, bin, file, data string, dpkg func(args ...string) string) {
	t.Helper()
	there := func(path string) bool {
		_, err := os.Stat(path)
		return err == nil
	}
	dpkg("--remove", "millrace")
	if there(bin) || !there(file) {
		t.Errorf("after the removal: binary %t, configuration %t", there(bin), there(file))
	}
	out := dpkg("--purge", "millrace")
	if there(file) || !there(data) || !strings.Contains(out, "are kept") {
		t.Errorf("after the purge: configuration %t, jobs %t\n%s", there(file), there(data), out)
	}
	left, err := filepath.Glob(filepath.Join(root, "usr/*/*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

// Every command has a manual page, and that of millrace leads to it.
func TestManual(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	tool(t, "dpkg-deb", "--extract", built, root)
	pages := filepath.Join(root, "usr/share/man/man1")
	page := strings.ReplaceAll(tool(t, "gzip", "-dc", filepath.Join(pages, "millrace.1.gz")), `\-`, "-")
	help := tool(t, filepath.Join(root, "usr/bin/millrace"), "--help")
	names := regexp.MustCompile(`(?m)^  ([a-z-]+)  `).FindAllStringSubmatch(help, -1)
	if len(names) < 20 {
		t.Fatalf("commands %q of\n%s", names, help)
	}
	for _, name := range names {
		if name[1] == "help" {
			continue
		}
		if !strings.Contains(page, "millrace-"+name[1]+"(1)") {
			t.Errorf("the manual page does not lead to %s", name[1])
		}
		if text := tool(t, "gzip", "-dc", filepath.Join(pages, "millrace-"+name[1]+".1.gz")); !strings.Contains(text,
			".SH SYNOPSIS") {
			t.Errorf("the page of %s:\n%s", name[1], text)
		}
	}
}
