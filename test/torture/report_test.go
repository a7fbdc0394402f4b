package torture

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// reportLock keeps two suites from writing the document at once.
var reportLock sync.Mutex

// writeReport logs the figures of a suite and, with -report, puts them as a table
// between the marks that the document has for it.
func writeReport(t *testing.T, name string, rows [][2]string) {
	t.Helper()
	rows = append(rows,
		[2]string{"Seed", fmt.Sprint(seed)},
		[2]string{"Version", version(t)},
		[2]string{"Machine", machine()},
		[2]string{"Day", time.Now().UTC().Format(time.DateOnly)})
	var b strings.Builder
	b.WriteString("| | |\n| --- | --- |\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s |\n", r[0], r[1])
	}
	t.Logf("%s:\n%s", name, &b)
	if *reportPath == "" {
		return
	}
	reportLock.Lock()
	defer reportLock.Unlock()
	text, err := os.ReadFile(*reportPath)
	if err != nil {
		t.Fatal(err)
	}
	changed, err := between(string(text), name, b.String())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(*reportPath, []byte(changed), 0o644); err != nil {
		t.Fatal(err)
	}
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

// version asks the server.
func version(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program.Bin, "version").Output()
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(out), "\n")
	return first
}

// machine tells what the test ran on.
func machine() string {
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		kernel = []byte("unknown kernel")
	}
	return fmt.Sprintf("%d processors, %s/%s, %s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, strings.TrimSpace(string(kernel)))
}

func TestReport(t *testing.T) {
	t.Parallel()
	const text = "# T\n\n<!-- a -->\nold\n<!-- /a -->\n\n<!-- b -->\n<!-- /b -->\nend\n"
	got, err := between(text, "a", "new\n")
	if want := strings.Replace(text, "old", "new", 1); err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	if _, err := between(text, "c", "new\n"); err == nil {
		t.Error("a place that is not there is no error")
	}
}
