package docs

import (
	"encoding/json"
	"maps"
	"regexp"
	"strings"
	"testing"
)

// TestClientVersions holds the table of tested clients to what the tests of clients use.
func TestClientVersions(t *testing.T) {
	t.Parallel()
	versions := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^\s+(\S+) v([0-9.]+)$`).FindAllStringSubmatch(text(t,
		"test/clients/go.mod"), -1) {
		versions[m[1]] = m[2]
	}
	var npm struct {
		Dependencies map[string]string `json:"dependencies"`
	}
	if err := json.Unmarshal([]byte(text(t, "test/clients/node/package.json")), &npm); err != nil {
		t.Fatal(err)
	}
	maps.Copy(versions, npm.Dependencies)
	// Libraries that the clients need, not clients.
	for _, name := range []string{"github.com/google/uuid", "github.com/tarantool/go-iproto"} {
		delete(versions, name)
	}
	tested, _, found := strings.Cut(text(t, "docs/clients.md"), "\n## Should work\n")
	if !found || len(versions) < 8 {
		t.Fatalf("the page has no such section, or these are not all clients: %v", versions)
	}
	for name, version := range versions {
		row := regexp.MustCompile("(?m)^\\| [^|]+ \\| `" + regexp.QuoteMeta(name) + "(/client)?` \\| " +
			regexp.QuoteMeta(version) + " \\|")
		if !row.MatchString(tested) {
			t.Errorf("docs/clients.md does not list %s %s among the tested clients", name, version)
		}
	}
}
