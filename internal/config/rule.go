package config

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
)

// Rule is a table of a file that is no setting of the server, but something that it keeps with its data and follows: a
// cron entry, the limits or the hook of a queue. Rules are taken over whenever the configuration is read again.
type Rule struct {
	Kind     string // the name of the section, such as "cron"
	Original bool   // it is of a file of the Faktory server, in that server's form
	Value    []byte // the table as JSON
	From     Source
}

// The kinds of rules.
const (
	RuleCron  = "cron"
	RuleHook  = "hook"
	RuleQueue = "queue"
)

// SectionThrottles is what Faktory's files have instead of RuleQueue.
const SectionThrottles = "throttles"

// Rules takes an array of tables from a file of another server, in that server's form.
func (l *loader) Rules(kind, path string, data []byte, tables any) {
	l.rules(kind, true, path, data, tables)
}

// rules takes an array of tables from a file.
func (l *loader) rules(kind string, original bool, path string, data []byte, tables any) {
	list, ok := tables.([]map[string]any)
	if !ok {
		l.problem("%s: %[2]s is a list of tables: write [[%[2]s]]", path, kind)
		return
	}
	lines := tableLines(data, kind)
	for i, table := range list {
		from := Source{Layer: LayerFile, Name: path, Line: 1}
		if i < len(lines) {
			from.Line = lines[i]
		}
		value, err := json.Marshal(table)
		if err != nil {
			l.problem("%s: %s: %s", from, kind, err)
			continue
		}
		l.config.Rules = append(l.config.Rules, Rule{Kind: kind, Original: original, Value: value, From: from})
	}
}

// Throttles takes the table of limits by queue from a file of the Faktory server. The value of each rule is the entry,
// with the name of its queue.
func (l *loader) Throttles(path string, data []byte, value any) {
	table, ok := value.(map[string]any)
	if !ok {
		l.problem("%s: %[2]s is a section with keys of its own, not a value: write [%[2]s]", path, SectionThrottles)
		return
	}
	for _, queue := range slices.Sorted(maps.Keys(table)) {
		from := Source{Layer: LayerFile, Name: path, Line: keyLine(data, queue)}
		entry, ok := table[queue].(map[string]any)
		if !ok {
			l.problem("%s: %s: %s: write for example { concurrency = 4, timeout = 60 }", from, SectionThrottles, queue)
			continue
		}
		value, err := json.Marshal(map[string]any{"queue": queue, "limits": entry})
		if err != nil {
			l.problem("%s: %s: %s", from, SectionThrottles, err)
			continue
		}
		l.config.Rules = append(l.config.Rules, Rule{Kind: RuleQueue, Original: true, Value: value, From: from})
	}
}

// keyLine returns the line at which a key, or a table of that name, stands.
func keyLine(data []byte, name string) int {
	quoted := `"?` + regexp.QuoteMeta(name) + `"?\s*`
	at := regexp.MustCompile(`^\s*(` + quoted + `=|\[\s*` + SectionThrottles + `\s*\.\s*` + quoted + `\])`)
	for i, line := range bytes.Split(data, []byte("\n")) {
		if at.Match(line) {
			return i + 1
		}
	}
	return 1
}

// tableLines returns the lines at which the tables of an array begin.
func tableLines(data []byte, name string) (lines []int) {
	head := regexp.MustCompile(`^\s*\[\[\s*"?` + regexp.QuoteMeta(name) + `"?\s*\]\]`)
	for i, line := range bytes.Split(data, []byte("\n")) {
		if head.Match(line) {
			lines = append(lines, i+1)
		}
	}
	return lines
}
