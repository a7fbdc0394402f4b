package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"millrace/internal/bench"
)

// report is where the figures go, as Markdown.
type report struct{ w io.Writer }

// printf prints a line. Nobody can be told that standard output is gone.
func (r report) printf(format string, args ...any) { _, _ = fmt.Fprintf(r.w, format+"\n", args...) }

// facts prints what the figures depend on.
func (r report) facts(dir string) error {
	m, err := bench.ReadMachine(dir)
	if err != nil {
		return err
	}
	r.printf("Machine: %s.", m)
	return nil
}

// heading begins a part.
func (r report) heading(format string, args ...any) { r.printf("\n### "+format+"\n", args...) }

// table prints its rows as they come.
type table struct{ report }

func (r report) table(columns ...string) table {
	r.printf("| %s |", strings.Join(columns, " | "))
	r.printf("|%s", strings.Repeat(" --- |", len(columns)))
	return table{r}
}

// row prints a row of texts and durations.
func (t table) row(cells ...any) {
	texts := make([]string, len(cells))
	for i, c := range cells {
		if d, ok := c.(time.Duration); ok {
			c = bench.Seconds(d)
		}
		texts[i] = fmt.Sprint(c)
	}
	t.printf("| %s |", strings.Join(texts, " | "))
}

// rate prints jobs per second, ratio a part of something, allocs allocations per job.
func rate(v float64) string  { return fmt.Sprintf("%.0f", v) }
func ratio(v float64) string { return fmt.Sprintf("%.2f", v) }

func allocs(v float64) string {
	if v < 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", v)
}
