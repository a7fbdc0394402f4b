package packaging

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// unit is the settings of a unit file by section and name, in their order.
type unit map[string]map[string][]string

func parseUnit(t *testing.T, text string) unit {
	t.Helper()
	u := unit{}
	section := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if line[0] == '[' {
			section = strings.Trim(line, "[]")
			u[section] = map[string][]string{}
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok || section == "" {
			t.Fatalf("line %q is no setting", line)
		}
		u[section][name] = append(u[section][name], value)
	}
	return u
}

func TestService(t *testing.T) {
	t.Parallel()
	u := parseUnit(t, read(t, "packaging/systemd/millrace.service"))
	for name, want := range map[string]string{
		"Type": "notify", "NotifyAccess": "main", "WatchdogSec": "30s", "Restart": "on-failure",
		"RestartPreventExitStatus": "2",
		"User":                     "millrace", "StateDirectory": "millrace", "NoNewPrivileges": "yes",
		"CapabilityBoundingSet": "",
		"ProtectSystem":         "strict",
		"ProtectHome":           "yes", "PrivateTmp": "yes", "PrivateDevices": "yes", "MemoryDenyWriteExecute": "yes",
		"RestrictNamespaces":      "yes",
		"RestrictAddressFamilies": "AF_INET AF_INET6 AF_UNIX", "UMask": "0077", "ExecReload": "/bin/kill -HUP $MAINPID",
	} {
		if got := u["Service"][name]; !slices.Equal(got, []string{want}) {
			t.Errorf("%s=%q, want %q", name, got, want)
		}
	}
	if got := u["Install"]["WantedBy"]; !slices.Equal(got, []string{"multi-user.target"}) {
		t.Errorf("it is wanted by %q", got)
	}
}

// Every listener that is on by default has a socket with its key and its address.
func TestSockets(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob(filepath.Join("..", "..", "packaging", "systemd", "*.socket"))
	if err != nil {
		t.Fatal(err)
	}
	sockets := map[string]string{} // addresses by key
	for _, name := range names {
		u := parseUnit(t, read(t, filepath.Join("packaging", "systemd", filepath.Base(name))))["Socket"]
		if len(u["FileDescriptorName"]) != 1 || len(u["ListenStream"]) != 1 ||
			!slices.Equal(u["Service"], []string{"millrace.service"}) {
			t.Errorf("%s: %v", name, u)
			continue
		}
		sockets[u["FileDescriptorName"][0]] = u["ListenStream"][0]
	}
	example := read(t, "docs/millrace.example.toml")
	defaults := map[string]string{}
	for _, m := range regexp.MustCompile(`# MILLRACE_(\w+)_ADDR, .*\n# addr = "([^"]*:\d+)"`).FindAllStringSubmatch(example, -1) {
		defaults[strings.ToLower(m[1])+".addr"] = m[2]
	}
	if len(defaults) < 5 {
		t.Fatalf("the example has only the listeners %v", defaults)
	}
	for key, addr := range defaults {
		if sockets[key] != addr {
			t.Errorf("%s is on %s and its socket on %q", key, addr, sockets[key])
		}
	}
	for key := range sockets {
		if defaults[key] == "" {
			t.Errorf("the socket of %s is that of no listener", key)
		}
	}
}
