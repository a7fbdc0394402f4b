package monitoring

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	// The server is run as a process, which the go tool cannot see: without this import it would call a test
	// result of an older server current.
	_ "millrace/internal/cli"
)

// metric is a name that a rule or a panel can read.
var metric = regexp.MustCompile(`\b(millrace|process|go)_[a-z_]+\b`)

// Whatever the dashboard and the rules read, a server that has done a little work exports, or a node of a cluster.
func TestNames(t *testing.T) {
	t.Parallel()
	exported := map[string]bool{}
	for _, scrape := range []func(context.Context) (string, error){Scrape, ScrapeCluster} {
		text, err := scrape(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(text) {
			if name := metric.FindString(line); name != "" && !strings.HasPrefix(line, "#") {
				exported[name] = true
			}
		}
	}
	d, err := ReadDashboard(Dir())
	if err != nil {
		t.Fatal(err)
	}
	rules, err := os.ReadFile(filepath.Join(Dir(), "alerts.yml"))
	if err != nil {
		t.Fatal(err)
	}
	used := metric.FindAllString(string(rules), -1)
	if len(used) < 10 {
		t.Errorf("the rules read only %q", used)
	}
	for _, e := range d.Expressions() {
		names := metric.FindAllString(e, -1)
		if len(names) == 0 {
			t.Errorf("%s reads nothing", e)
		}
		used = append(used, names...)
	}
	for _, v := range d.Templating.List {
		used = append(used, metric.FindAllString(v.Definition, -1)...)
	}
	for _, name := range used {
		if !exported[name] {
			t.Errorf("%s is read and not exported", name)
		}
	}
}

// Panels have numbers of their own, say what they show, and do not lie on each other.
func TestDashboard(t *testing.T) {
	t.Parallel()
	d, err := ReadDashboard(Dir())
	if err != nil {
		t.Fatal(err)
	}
	if d.UID != "millrace" || len(d.Panels) < 20 {
		t.Errorf("%q has %d panels", d.UID, len(d.Panels))
	}
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("two panels have the number %d", p.ID)
		}
		ids[p.ID] = true
		if p.Type != "row" && (p.Description == "" || len(p.Targets) == 0) {
			t.Errorf("%s shows nothing, or does not say what", p.Title)
		}
		if p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("%s is beyond the edge", p.Title)
		}
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if other, ok := taken[at]; ok {
					t.Fatalf("%s lies on %s", p.Title, other)
				}
				taken[at] = p.Title
			}
		}
	}
	for _, e := range d.Expressions() {
		if strings.Contains(e, "$") {
			t.Errorf("%s has a variable that nobody fills in", e)
		}
	}
}
