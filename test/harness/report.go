package harness

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
)

// reportLock keeps two suites from writing a document at once.
var reportLock sync.Mutex

// Publish puts a table between the marks that a document has for a suite.
func Publish(path, name, table string) error {
	reportLock.Lock()
	defer reportLock.Unlock()
	text, err := os.ReadFile(path) //nolint:gosec // the document that was asked for
	if err != nil {
		return err
	}
	changed, err := between(string(text), name, table)
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(changed), 0o644) //nolint:gosec // a document that everybody may read
}

// between replaces what stands between the marks of a suite.
func between(text, name, with string) (string, error) {
	from, to := "<!-- "+name+" -->\n", "<!-- /"+name+" -->"
	head, rest, ok := strings.Cut(text, from)
	_, tail, found := strings.Cut(rest, to)
	if !ok || !found {
		return "", fmt.Errorf("the document has no place for %s", name)
	}
	return head + from + with + to + tail, nil
}

// Version asks a server.
func Version(ctx context.Context, bin string) (string, error) {
	out, err := exec.CommandContext(ctx, bin, "version").Output()
	if err != nil {
		return "", fmt.Errorf("ask for the version: %w", err)
	}
	first, _, _ := strings.Cut(string(out), "\n")
	return first, nil
}

// Machine tells what this runs on.
func Machine() string {
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		kernel = []byte("unknown kernel")
	}
	return fmt.Sprintf("%d processors, %s/%s, %s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH,
		strings.TrimSpace(string(kernel)))
}
