package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// claims are statements that a document makes about something which is defined elsewhere. Whoever changes one of the
// two is told of the other.
var claims = []struct{ document, says, source, has string }{
	{"docs/sizing.md", "twice `store.memtable`", "internal/store/pebblestore/options.go", "memTablesMax         = 2"},
	{"docs/sizing.md", "a job with a key takes about three bytes", "internal/engine/filter.go", "bitsPerKey    = 12"},
	{"README.md", "take three bytes of memory each", "internal/engine/filter.go", "bitsPerKey    = 12"},
	{
		"docs/backup.md", "it is beside the data directory and has the same name with `-backups`\nat its end",
		"internal/config/table.go", `that of data.dir with "-backups" behind it`,
	},
	{
		"docs/backup.md", "The service of the Debian package, whose data is in " +
			"`/var/lib/millrace/data`, may write there",
		"packaging/systemd/millrace.service", "StateDirectory=millrace\n",
	},
	{
		"docs/guarantees.md", "for as long as `server.drain_timeout` (1.5 s)", "docs/millrace.example.toml",
		"# drain_timeout = \"1.5s\"",
	},
	{
		"README.md", " | up to the last 100 ms | up to the last 100 ms |", "docs/millrace.example.toml",
		"# sync_interval = \"100ms\"",
	},
	{
		"docs/faq.md", "any crash, even of the process alone, can lose the last 100 ms", "docs/millrace.example.toml",
		"# sync_interval = \"100ms\"",
	},
	{"docs/faq.md", "64 MiB in Faktory and Tarantool Queue, 8 MiB in Masenko, 1 MiB in Workq, 64 KiB in LMSTFY\nand " +
		"beanstalkd", "docs/millrace.example.toml", "# max_job_size = \"65535\""},
	{
		"docs/security.md", "| Masenko, Workq, beanstalkd | none | yes | yes |", "docs/configuration.md",
		"Masenko, Workq and beanstalkd have none",
	},
	{
		"docs/security.md", "Faktory's password needs a restart", "docs/install.md",
		"`web.password`, `web.read_password`, `web.token`, `web.read_token`, and the files\n",
	},
	{"docs/sizing.md", "`server.max_queues` (250,000)", "docs/millrace.example.toml", "# max_queues = 250000"},
	{
		"docs/guarantees.md", "at most what was answered within the last `store.sync_interval` (100 ms)",
		"internal/server/banner.go", "any crash, also of the process alone, may lose the last %s",
	},
	{
		"docs/protocols/faktory.md", "`-w` | `web.addr`; `:0` turns the web UI off", "internal/cli/faktory_server.go",
		`address of the web UI: web.addr (":0" turns it off)`,
	},
	{
		"docs/runbooks/MillraceClusterLag.md", "\nNAME  ROLE     REACHABLE  BEHIND  ", "internal/cli/cluster.go",
		`"NAME", "ROLE", "REACHABLE", "BEHIND", "VERSION", "FORMAT", "ADDRESS", "ABOUT"`,
	},
	{
		"docs/runbooks/MillraceClusterSettingsDiffer.md", "its settings differ: ", "internal/server/agree.go",
		"its settings differ: ",
	},
	{
		"docs/configuration.md", "Masenko, Workq and beanstalkd have none", "docs/protocols/beanstalkd.md",
		"no authentication",
	},
}

func TestClaims(t *testing.T) {
	t.Parallel()
	for _, c := range claims {
		if !strings.Contains(text(t, c.document), c.says) {
			t.Errorf("%s does not say %q any more: take it off the list, or mend it", c.document, c.says)
		}
		if !strings.Contains(text(t, c.source), c.has) {
			t.Errorf("%s has changed (it had %q): look whether %s is still right to say %q", c.source, c.has,
				c.document, c.says)
		}
	}
}

// What a page says is missing must not be among the settings.
func TestMissingFeatures(t *testing.T) {
	t.Parallel()
	example := text(t, "docs/millrace.example.toml")
	for _, document := range []string{"README.md", "docs/protocols/faktory.md"} {
		page := text(t, document)
		for _, feature := range []string{"cron", "throttles", "statsd"} {
			missing := regexp.MustCompile(`(?:except for|paid features)[^.]*\b` + feature + `\b`).MatchString(page)
			// By a section of its own, or from the files of the original.
			built := regexp.MustCompile(`(?m)^\[+` + feature +
				`|Configuration directory of the original server:[^.]*\b` + feature + `\b`).MatchString(example)
			if missing == built {
				t.Errorf("%s says that %s is missing: %v, and there are settings for it: %v", document,
					feature, missing, built)
			}
		}
	}
}

// text returns a file of the repository.
func text(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
