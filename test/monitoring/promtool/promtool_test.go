package promtool

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	// The server is run as a process, which the go tool cannot see: without this import it would call a test
	// result of an older server current.
	_ "millrace/internal/cli"
	"millrace/test/monitoring"
)

// promtool is where the tool is.
var promtool string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	for _, name := range []string{filepath.Join("..", "..", "..", "bin", "promtool"), "promtool"} {
		if path, err := exec.LookPath(name); err == nil {
			promtool = path
			return m.Run()
		}
	}
	fmt.Fprintln(os.Stderr, "no promtool here: the alert rules are not tested; test/monitoring/install.sh gets it")
	if os.Getenv("CI") != "" {
		return 1
	}
	return 0
}

// check runs the tool on a text.
func check(t *testing.T, stdin string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), promtool, args...)
	cmd.Stdin = strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %q: %v\n%s", args, err, out)
	}
}

func TestRules(t *testing.T) {
	t.Parallel()
	check(t, "", "check", "rules", "--lint-fatal", filepath.Join(monitoring.Dir(".."), "alerts.yml"))
	check(t, "", "test", "rules", filepath.Join(monitoring.Dir(".."), "alerts_test.yml"))
}

// What the panels show is well-formed: rules that record the same are.
func TestDashboard(t *testing.T) {
	t.Parallel()
	d, err := monitoring.ReadDashboard(monitoring.Dir(".."))
	if err != nil {
		t.Fatal(err)
	}
	type rule struct {
		Record string `json:"record"`
		Expr   string `json:"expr"`
	}
	var rules []rule
	for i, e := range d.Expressions() {
		rules = append(rules, rule{fmt.Sprintf("panel:%d", i), e})
	}
	// Which is YAML, too.
	text, err := json.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "dashboard.yml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	check(t, "", "check", "rules", file)
}

func TestExposition(t *testing.T) {
	t.Parallel()
	for _, scrape := range []func(context.Context) (string, error){monitoring.Scrape, monitoring.ScrapeCluster} {
		text, err := scrape(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		check(t, text, "check", "metrics")
	}
}
