package top

import (
	"slices"
	"strings"
	"time"
	"unicode"

	"charm.land/lipgloss/v2"
)

// column is one of a table of T.
type column[T any] struct {
	title string
	width int  // zero: what the others leave; one column of a table has it
	wide  int  // the same on a wide screen; zero: as wide as elsewhere
	right bool // numbers are
	// from is how wide the screen must be for it to be shown.
	from int
	cell func(row *T, now time.Time) string
	less func(a, b *T) int
}

// wideScreen is from where a screen is wide.
const wideScreen = 110

// table is a list of T that is sorted by a column.
type table[T any] struct {
	columns []column[T]
	by      int
	reverse bool
}

// next sorts by the next column that can be seen.
func (t *table[T]) next(width int) {
	for range t.columns {
		t.by = (t.by + 1) % len(t.columns)
		if t.columns[t.by].from <= width {
			return
		}
	}
}

// sort sorts rows, and leaves equal ones as they come.
func (t *table[T]) sort(rows []T) {
	compare := t.columns[t.by].less
	slices.SortStableFunc(rows, func(a, b T) int {
		if t.reverse {
			a, b = b, a
		}
		return compare(&a, &b)
	})
}

// shown returns the columns that fit, and how wide each is.
func (t *table[T]) shown(width int) (columns []int, widths []int) {
	left, flex := width, -1
	for i := range t.columns {
		c := &t.columns[i]
		if c.from > width {
			continue
		}
		if c.width == 0 {
			flex = len(columns)
		}
		w := c.width
		if width >= wideScreen && c.wide > 0 {
			w = c.wide
		}
		columns, widths = append(columns, i), append(widths, w)
		left -= w + 1
	}
	if flex >= 0 {
		widths[flex] = max(left+1, 1)
	}
	return columns, widths
}

// header returns the line above the rows, with a mark at the column that sorts.
func (t *table[T]) header(width int) string {
	columns, widths := t.shown(width)
	cells := make([]string, len(columns))
	for i, at := range columns {
		title := t.columns[at].title
		switch {
		case at != t.by:
		case t.reverse:
			title += "▲"
		default:
			title += "▼"
		}
		cells[i] = fit(title, widths[i], t.columns[at].right)
	}
	return strings.Join(cells, " ")
}

// line returns one row.
func (t *table[T]) line(row *T, width int, now time.Time) string {
	columns, widths := t.shown(width)
	cells := make([]string, len(columns))
	for i, at := range columns {
		c := &t.columns[at]
		cells[i] = fit(printable(c.cell(row, now)), widths[i], c.right)
	}
	return strings.Join(cells, " ")
}

// fit makes a text as wide as a column.
func fit(text string, width int, right bool) string {
	w := lipgloss.Width(text)
	if w > width {
		text = cut(text, width)
		w = lipgloss.Width(text)
	}
	pad := strings.Repeat(" ", max(width-w, 0))
	if right {
		return pad + text
	}
	return text + pad
}

// cut shortens a text that is too wide. Characters may be two columns wide.
func cut(text string, width int) string {
	var b strings.Builder
	used := 0
	for _, r := range text {
		w := lipgloss.Width(string(r))
		if used+w > width-1 {
			break
		}
		used += w
		b.WriteRune(r)
	}
	if width > 0 {
		b.WriteString("…")
	}
	return b.String()
}

// printable keeps what clients have written from playing tricks on the terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsPrint(r):
			return r
		case unicode.IsSpace(r):
			return ' '
		default:
			return '?'
		}
	}, text)
}
