package packaging

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"

	"millrace/internal/config"
	"millrace/internal/server"
)

// mapping is a mapping of YAML: texts, lists of texts and mappings.
type mapping map[string]any

func (m mapping) text(key string) string    { s, _ := m[key].(string); return s }
func (m mapping) list(key string) []string  { l, _ := m[key].([]string); return l }
func (m mapping) under(key string) mapping  { u, _ := m[key].(mapping); return u }
func (m mapping) has(key, text string) bool { return slices.Contains(m.list(key), text) }

var (
	yamlLine    = regexp.MustCompile(`^( *)([\w<.-]+):(?: +(.*))?$`)
	yamlComment = regexp.MustCompile(`^ *(#.*)?$`)
)

// parseYAML reads what our files have of YAML: block mappings, texts, lists in brackets, anchors and merges. All else
// is an error.
func parseYAML(text string) (mapping, error) {
	type level struct {
		indent int
		of     mapping
	}
	root, anchors := mapping{}, map[string]mapping{}
	open := []level{{0, root}}
	for line := range strings.SplitSeq(text, "\n") {
		if yamlComment.MatchString(line) {
			continue
		}
		m := yamlLine.FindStringSubmatch(line)
		if m == nil {
			return nil, fmt.Errorf("cannot be read: %q", line)
		}
		indent, key, value := len(m[1]), m[2], m[3]
		for len(open) > 1 && indent < open[len(open)-1].indent {
			open = open[:len(open)-1]
		}
		if at := open[len(open)-1]; indent != at.indent {
			return nil, fmt.Errorf("indented by %d, not %d: %q", indent, at.indent, line)
		}
		at := open[len(open)-1].of
		if _, twice := at[key]; twice {
			return nil, fmt.Errorf("%s is there twice", key)
		}
		switch {
		case key == "<<":
			from, ok := anchors[strings.TrimPrefix(value, "*")]
			if !ok {
				return nil, fmt.Errorf("no anchor %s", value)
			}
			maps.Copy(at, from)
		case value == "" || value[0] == '&':
			next := mapping{}
			at[key] = next
			if value != "" {
				anchors[value[1:]] = next
			}
			open = append(open, level{indent + 2, next}) // what is indented further belongs to it
		case value[0] == '[':
			var list []string
			if err := json.Unmarshal([]byte(value), &list); err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
			at[key] = list
		default:
			at[key] = strings.Trim(value, `"`)
		}
	}
	return root, nil
}

// imageEnv is the environment that the image sets.
func imageEnv(dockerfile string) []string {
	var env []string
	for _, i := range parseDockerfile(dockerfile) {
		if i.name == "ENV" {
			env = append(env, strings.Fields(i.args)...)
		}
	}
	return env
}

// checkCompose returns what is wrong with a file of nodes.
func checkCompose(text, dockerfile string) (complaints []string) {
	complain := func(format string, args ...any) { complaints = append(complaints, fmt.Sprintf(format, args...)) }
	file, err := parseYAML(text)
	if err != nil {
		return []string{err.Error()}
	}
	services := file.under("services")
	names, ports, volumes := slices.Sorted(maps.Keys(services)), map[string]bool{}, map[string]bool{}
	var peers []config.Peer
	for _, name := range names {
		s := services.under(name)
		env := imageEnv(dockerfile)
		for key := range s.under("environment") {
			env = append(env, key+"="+s.under("environment").text(key))
		}
		c, err := server.Settings().Load(config.Input{Environ: env})
		if err != nil {
			complain("%s: %s", name, err)
			continue
		}
		i := slices.IndexFunc(c.Cluster.Peers, func(p config.Peer) bool { return p.Name == c.Cluster.Node })
		host, _, _ := net.SplitHostPort(c.Cluster.Peers[i].Addr)
		switch {
		case peers == nil:
			peers = c.Cluster.Peers
		case !slices.Equal(peers, c.Cluster.Peers):
			complain("%s has other peers", name)
		}
		alias := false
		for network := range s.under("networks") {
			if s.under("networks").under(network).has("aliases", host) {
				alias = true
				if file.under("networks").under(network).text("internal") != "true" && c.Cluster.Insecure {
					complain("%s: others are in the network %s, and nodes do without certificates", name, network)
				}
			}
		}
		if !alias {
			complain("%s: %s is no name of it in any network", name, host)
		}
		if !slices.Equal(c.Listen.Hosts, names) {
			complain("%s answers as %q, and clients know %q", name, c.Listen.Hosts, names)
		}
		checkPorts(s.list("ports"), c, ports, func(format string, args ...any) { complain(name+": "+format, args...) })
		volume, dir, _ := strings.Cut(strings.Join(s.list("volumes"), " "), ":")
		// Compose takes a name of one letter for a drive of Windows, and the whole for a path in the container.
		if _, declared := file.under("volumes")[volume]; !declared || dir != c.Data.Dir || volumes[volume] ||
			len(volume) == 1 {
			complain("%s has no volume of its own for %s: %q", name, c.Data.Dir, s.list("volumes"))
		}
		volumes[volume] = true
		test, _ := json.Marshal(s.under("healthcheck").list("test")) // texts can be written
		if want := `["CMD","/millrace","health"]`; string(test) != want ||
			!strings.Contains(dockerfile, `CMD ["/millrace", "health"]`) {
			complain("%s: the health check is %s, not %s", name, test, want)
		}
		if s.text("image") != "millrace" || s.text("read_only") != "true" {
			complain("%s does not run the image, or may write to it", name)
		}
	}
	if len(peers) != 3 || len(names) != len(peers) {
		complain("%d nodes, %d services", len(peers), len(names))
	}
	return complaints
}

// checkPorts looks at what a node publishes: each on this machine only, under a port of its own, and something that is
// listened on.
func checkPorts(list []string, c *config.Config, taken map[string]bool, complain func(format string, args ...any)) {
	web := false
	for _, port := range list {
		parts := strings.Split(port, ":")
		if len(parts) != 3 || parts[0] != "127.0.0.1" {
			complain("port %s is not only for this machine", port)
			continue
		}
		if taken[parts[1]] {
			complain("port %s is taken", port)
		}
		taken[parts[1]] = true
		i := slices.IndexFunc(c.Listeners(), func(l config.Listener) bool { return l.Addr == ":"+parts[2] })
		if i < 0 {
			complain("nothing listens on port %s", port)
			continue
		}
		web = web || c.Listeners()[i].Protocol == config.ProtocolWeb
	}
	if !web {
		complain("the web UI is not published")
	}
}

func TestCompose(t *testing.T) {
	t.Parallel()
	text := read(t, "packaging/compose/cluster.yaml")
	for _, c := range checkCompose(text, read(t, "Dockerfile")) {
		t.Error(c)
	}
	// The three commands are those that the documents show.
	commands := regexp.MustCompile(`(?m)^#   (docker .*)$`).FindAllStringSubmatch(text, -1)
	shown := read(t, "docs/cluster.md")
	for _, c := range commands {
		if !strings.Contains(shown, c[1]+"\n") {
			t.Errorf("docs/cluster.md does not show %s", c[1])
		}
	}
	if len(commands) != 3 {
		t.Errorf("%d commands", len(commands))
	}
}

// Every rule finds a file that breaks it.
func TestComposeRules(t *testing.T) {
	t.Parallel()
	good, dockerfile := read(t, "packaging/compose/cluster.yaml"), read(t, "Dockerfile")
	for _, c := range []struct{ old, replacement string }{
		{"node-c=node-c:7421", "node-c=node-d:7421"},
		{"MILLRACE_CLUSTER_NODE: node-b", "MILLRACE_CLUSTER_NODE: node-x"},
		{"MILLRACE_CLUSTER_NODE: node-b", "MILLRACE_CLUSTER_NODES: node-b"},
		{`INSECURE: "true"`, `INSECURE: "false"`},
		{"internal: true", "internal: false"},
		{`aliases: ["node-b"]`, `aliases: ["b"]`},
		{"HOSTS: a,b,c", "HOSTS: a,b"},
		{"127.0.0.1:8419:", "8419:"},
		{"127.0.0.1:8419:", "127.0.0.1:9419:"},
		{"8419:7419", "8419:7418"},
		{"8420:7420", "8420:7419"},
		{`["node-b:/data"]`, `["node-b:/var"]`},
		{`["node-b:/data"]`, `["node-a:/data"]`},
		{"\n  node-b:\n  node-c:\n", "\n  node-c:\n"},
		{`"health"]`, `"version"]`},
		{"image: millrace", "image: other"},
		{"read_only: true", "read_only: false"},
		{"<<: *node", "<<: *nodes"},
		{"  c:\n    <<", "  b:\n    <<"},
		{"services:", "services"},
		{"      MILLRACE_CLUSTER_NODE: node-a", "       MILLRACE_CLUSTER_NODE: node-a"},
	} {
		broken := strings.Replace(good, c.old, c.replacement, 1)
		if broken == good || len(checkCompose(broken, dockerfile)) == 0 {
			t.Errorf("%q instead of %q is not found", c.replacement, c.old)
		}
	}
	// This one takes two changes.
	letter := strings.NewReplacer("node-b:/data", "b:/data", "\n  node-b:\n", "\n  b:\n").Replace(good)
	if strings.Contains(letter, "node-b:\n") || len(checkCompose(letter, dockerfile)) == 0 {
		t.Error("a volume whose name is one letter is not found")
	}
}
