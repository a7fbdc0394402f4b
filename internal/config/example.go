package config

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

const exampleHead = `# Configuration of millrace. Every key is here with its default, commented out:
# remove the "# " in front of one to change it.
#
# Use the file with "millrace --config millrace.toml" or MILLRACE_CONFIG. Each key
# can also be given as the environment variable or the flag named above it: a flag
# wins over the environment, the environment over this file.
`

// WriteExample writes a TOML file with every key, its default and what it means.
func (t Table) WriteExample(w io.Writer) error {
	var b strings.Builder
	b.WriteString(exampleHead)
	last := ""
	for _, k := range t.keys {
		section, name := k.section()
		if section != last {
			fmt.Fprintf(&b, "\n[%s]\n", section)
			last = section
		}
		b.WriteByte('\n')
		for _, line := range wrap(k.Doc, 78) {
			b.WriteString("# " + line + "\n")
		}
		if k.Kind == KindChoice {
			b.WriteString("# One of " + strings.Join(k.Choices, ", ") + ".\n")
		}
		fmt.Fprintf(&b, "# %s, --%s\n# %s = %s\n", k.Env(), k.Flag(), name, k.tomlDefault())
	}
	b.WriteString(exampleRules)
	_, err := io.WriteString(w, b.String())
	return err
}

// exampleRules are what a file may have besides settings.
const exampleRules = `
# A job that is pushed again and again: docs/schedules.md. There may be several.
# [[cron]]
#   name = "report"
#   schedule = "0 9 * * MON-FRI"
#   time_zone = "Europe/Berlin"
#   queue = "reports"
#   [cron.job]
#   type = "Report"

# What happens when a job of a queue dies: docs/hooks.md. There may be several.
# [[hook]]
#   queue = "reports"
#   push = "dead-reports" # or: url = "https://example.org/dead"

# The limits of a queue, and whether its groups take turns: docs/limits.md.
# There may be several.
# [[queue]]
#   name = "mails"
#   concurrency = 4
#   rate = "100/s"
#   burst = 20
#   fair = true
#   weights = { gold = 5 }
`

// tomlDefault returns the default as the file would have it.
func (k Key) tomlDefault() string {
	if k.Kind == KindBool || k.Kind == KindInt {
		return k.Default
	}
	return strconv.Quote(k.Default)
}

// wrap breaks text at blanks into lines of at most width bytes where words allow.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
