package monitoring

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Panel is one of the dashboard, as far as it is checked.
type Panel struct {
	ID          int
	Type        string
	Title       string
	Description string
	GridPos     struct{ X, Y, W, H int }
	Targets     []struct{ Expr, LegendFormat string }
}

// Dashboard is Grafana's description of one, as far as it is checked.
type Dashboard struct {
	UID        string
	Panels     []Panel
	Templating struct {
		List []struct{ Name, Type, Definition string }
	}
}

// ReadDashboard reads the dashboard of a directory.
func ReadDashboard(dir string) (d Dashboard, err error) {
	text, err := os.ReadFile(filepath.Join(dir, "grafana-dashboard.json")) //nolint:gosec // a file of ours
	if err != nil {
		return d, err
	}
	if err := json.Unmarshal(text, &d); err != nil {
		return d, fmt.Errorf("read the dashboard: %w", err)
	}
	return d, nil
}

// Expressions returns what the panels show, with values for what Grafana fills in.
func (d *Dashboard) Expressions() []string {
	var list []string
	fill := strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*", "$namespace", ".*", "$queue", ".*", "$job",
		".*")
	for _, p := range d.Panels {
		for _, t := range p.Targets {
			list = append(list, fill.Replace(t.Expr))
		}
	}
	return list
}
