package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/spf13/cobra"
)

// table prints rows with columns of equal width. What cannot be written shows when it is flushed.
type table struct{ w *tabwriter.Writer }

func newTable(w io.Writer, header ...string) *table {
	t := &table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	if len(header) > 0 {
		t.row(header...)
	}
	return t
}

func (t *table) row(cells ...string) {
	for i, c := range cells {
		cells[i] = orElse(printable(c), "-")
	}
	_, _ = fmt.Fprintln(t.w, strings.Join(cells, "\t")) // shows with flush
}

func (t *table) flush() error { return t.w.Flush() }

// printable keeps what others have written from playing tricks on a terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		if unicode.IsSpace(r) {
			return ' '
		}
		return '?'
	}, text)
}

// shorten cuts a text for a column.
func shorten(text string, width int) string {
	text = printable(strings.TrimSpace(text))
	if r := []rune(text); len(r) > width {
		return string(r[:width-1]) + "…"
	}
	return text
}

// printLine prints a value as one line of JSON.
func printLine(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// span shows a time in one or two units.
func span(d time.Duration) string {
	d = max(d, 0).Round(time.Second)
	day := 24 * time.Hour
	switch {
	case d >= day:
		return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Minute:
		return fmt.Sprintf("%dm%ds", d/time.Minute, d%time.Minute/time.Second)
	default:
		return fmt.Sprintf("%ds", d/time.Second)
	}
}

// since shows how long ago something was, or how far ahead it is.
func since(t *time.Time) string {
	switch {
	case t == nil:
		return ""
	case time.Until(*t) > 0:
		return "in " + span(time.Until(*t))
	default:
		return span(time.Since(*t))
	}
}

// count shows a number.
func count[T ~uint32 | ~uint64](n T) string { return strconv.FormatUint(uint64(n), 10) }

// plural counts things.
func plural[T int | uint64](n T, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	many := thing + "s"
	switch {
	case strings.HasSuffix(thing, "ch"):
		many = thing + "es"
	case strings.HasSuffix(thing, "ry"):
		many = strings.TrimSuffix(thing, "y") + "ies"
	}
	return count(uint64(n)) + " " + many
}

// addYes gives a command that cannot be undone the flag that answers its question.
func addYes(cmd *cobra.Command) *bool {
	return cmd.Flags().BoolP("yes", "y", false, "do not ask")
}

// confirm asks before something that cannot be undone. Where nobody can be asked, the flag has to be given.
func confirm(cmd *cobra.Command, yes bool, question string) error {
	if yes {
		return nil
	}
	nobody := fmt.Errorf("%s Nobody can be asked here: add --yes to do it", question)
	in := cmd.InOrStdin()
	if w, ok := in.(io.Writer); !ok || !isTerminal(w) {
		return nobody
	}
	_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "%s [y/N] ", question)
	answer, err := bufio.NewReader(io.LimitReader(in, 100)).ReadString('\n')
	if err != nil && answer == "" { // the null device looks like a terminal
		_, _ = fmt.Fprintln(cmd.ErrOrStderr())
		return nobody
	}
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return fail(errors.New("nothing was done"))
	}
	return nil
}

// parsePositive reads a time span that must be one.
func parsePositive(flag, text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%s: %q is no time: write for example 90s, 10m or 2h", flag, text)
	}
	return d, nil
}

// sizeText shows bytes in the largest unit that leaves something before the point.
func sizeText(n uint64) string {
	if n < 1<<10 {
		return plural(n, "byte")
	}
	value, unit := float64(n), -1
	for value >= 1<<10 && unit < 3 {
		value /= 1 << 10
		unit++
	}
	return fmt.Sprintf("%.1f %s", value, [...]string{"KiB", "MiB", "GiB", "TiB"}[unit])
}
