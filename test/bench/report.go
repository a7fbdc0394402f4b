package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// report is where the figures go, as Markdown.
type report struct{ w io.Writer }

// printf prints a line. Nobody can be told that standard output is gone.
func (r report) printf(format string, args ...any) { _, _ = fmt.Fprintf(r.w, format+"\n", args...) }

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
			c = short(d)
		}
		texts[i] = fmt.Sprint(c)
	}
	t.printf("| %s |", strings.Join(texts, " | "))
}

// short prints a duration with three digits.
func short(d time.Duration) string {
	switch {
	case d < 100*time.Microsecond:
		return fmt.Sprintf("%.1f µs", float64(d)/float64(time.Microsecond))
	case d < time.Millisecond:
		return fmt.Sprintf("%.0f µs", float64(d)/float64(time.Microsecond))
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
	}
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}

// rate prints jobs per second, ratio a part of something.
func rate(v float64) string  { return fmt.Sprintf("%.0f", v) }
func ratio(v float64) string { return fmt.Sprintf("%.2f", v) }
