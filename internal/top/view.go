package top

import (
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"millrace/internal/job"
)

// styles are how texts look. The zero value leaves them as they are.
type styles struct {
	title, header, chosen, paused, bad, dim lipgloss.Style
}

// colours returns the styles of a terminal. Each says something that the text says, too.
func colours() styles {
	s := lipgloss.NewStyle()
	return styles{
		title: s.Bold(true), header: s.Bold(true).Foreground(lipgloss.Cyan), chosen: s.Reverse(true),
		paused: s.Foreground(lipgloss.Yellow), bad: s.Foreground(lipgloss.Red), dim: s.Faint(true),
	}
}

const (
	linesAbove = 5 // the server, its jobs, its rates, the pages, the header of the table
	linesBelow = 2 // what has happened, the keys
)

// room is how many rows fit on the screen.
func (m *model) room() int { return max(m.height-linesAbove-linesBelow, 1) }

// View returns the screen.
func (m *model) View() tea.View {
	lines := m.head(m.width)
	if m.help {
		lines = append(lines[:3], helpLines...)
	} else {
		lines = append(lines, m.table(m.width, m.offset, m.room())...)
	}
	for len(lines) < m.height-linesBelow {
		lines = append(lines, "")
	}
	lines = append(lines[:max(m.height-linesBelow, 0)], m.status(), m.keys())
	v := tea.NewView(strings.Join(lines, "\n"))
	v.AltScreen = true
	v.WindowTitle = "millrace top"
	return v
}

// head returns what stands above the table.
func (m *model) head(width int) []string {
	s, l := &m.data.Server, &m.data.Live
	state := "ready"
	if !s.Ready {
		state = "NOT READY"
	}
	left := fmt.Sprintf("millrace %s  %s", s.Version, m.address)
	right := fmt.Sprintf("%s waiting, up %s, %s, %s", number(float64(l.Waiting)), span(seconds(s.UptimeSeconds)),
		s.Durability, state)
	first := m.style.title.Render(fit(printable(left), max(width-lipgloss.Width(right)-1, 0), false)) + " " + right
	if !s.Ready {
		first = m.style.bad.Render(first)
	}
	n := func(states ...job.State) string {
		var sum uint64
		for _, st := range states {
			sum += l.Counts[st.Name()]
		}
		return number(float64(sum))
	}
	jobs := cells("Jobs", n(job.Ready), "ready", n(job.Leased), "running", n(job.Scheduled, job.Blocked), "scheduled",
		n(job.Retrying), "retrying", n(job.Dead, job.Failed, job.Buried), "dead")
	rates := cells("/s", number(l.Rates.Pushed), "pushed", number(l.Rates.Fetched), "fetched", number(l.Rates.Acked),
		"acked",
		number(l.Rates.Failed), "failed")
	return []string{first, cutLine(jobs, width), cutLine(rates, width), cutLine(m.tabs(), width)}
}

// cells puts numbers and what they count into columns.
func cells(title string, pairs ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-5s", title)
	for i := 0; i+1 < len(pairs); i += 2 {
		fmt.Fprintf(&b, "%6s %-9s", pairs[i], pairs[i+1])
	}
	return strings.TrimRight(b.String(), " ")
}

// cutLine shortens a line that does not fit.
func cutLine(line string, width int) string {
	if lipgloss.Width(line) > width {
		return cut(line, width)
	}
	return line
}

// tabs shows the pages and which of them is looked at.
func (m *model) tabs() string {
	var b strings.Builder
	for p := range page(pageCount) {
		title := fmt.Sprintf("%d %s", p+1, pageTitles[p])
		if p == m.of.page {
			title = fmt.Sprintf("[%s: %d", title, m.rows())
			if m.data.More {
				title += "+"
			}
			title += "]"
		} else {
			title = " " + title + " "
		}
		b.WriteString(title + " ")
	}
	if m.of.queue != (queueRef{}) && m.of.page != pageQueues {
		b.WriteString(" of " + printable(queueName(m.of.queue.namespace, m.of.queue.name)))
	}
	if m.of.filter != "" {
		b.WriteString(` with "` + printable(m.of.filter) + `"`)
	}
	return strings.TrimRight(b.String(), " ")
}

// table returns the header and the rows from an offset on, as many as there is room for.
func (m *model) table(width, offset, room int) []string {
	now := m.data.Server.Now
	if m.of.page != pageQueues {
		return lines(m, &m.jobs[m.of.page], m.data.Jobs, frame{width, offset, room}, now)
	}
	return lines(m, &m.queues, m.data.Queues, frame{width, offset, room}, now)
}

// frame is the part of a table that is shown.
type frame struct{ width, offset, room int }

func lines[T any](m *model, t *table[T], rows []T, f frame, now time.Time) []string {
	out := []string{m.style.header.Render(t.header(f.width))}
	for i := f.offset; i < min(f.offset+f.room, len(rows)); i++ {
		line := t.line(&rows[i], f.width, now)
		switch {
		case i == m.cursor:
			line = m.style.chosen.Render(line)
		case m.of.page == pageQueues && m.data.Queues[i].Paused:
			line = m.style.paused.Render(line)
		}
		out = append(out, line)
	}
	if len(rows) == 0 && !m.loading {
		out = append(out, m.style.dim.Render("  "+m.nothing()))
	}
	return out
}

// nothing says why the list is empty.
func (m *model) nothing() string {
	switch {
	case m.of.filter != "":
		return "nothing matches; esc shows all"
	case m.of.page == pageQueues:
		return "there are no queues: one comes into being with its first job"
	default:
		return "there are no such jobs"
	}
}

// status is the line for what has happened, or for what is asked.
func (m *model) status() string {
	switch {
	case m.question != nil:
		return m.style.bad.Render(cutLine(fmt.Sprintf("Kill job %d of %s? y kills it, any other key does not",
			m.question.target.ID,
			printable(queueName(m.question.target.Namespace, m.question.target.Queue))), m.width))
	case m.typing:
		return cutLine("Filter: "+printable(m.of.filter)+"_  (enter keeps it, esc shows all)", m.width)
	case m.err != nil:
		return m.style.bad.Render(cutLine(printable(m.err.Error())+"; trying again", m.width))
	case m.failed:
		return m.style.bad.Render(cutLine(printable(m.note), m.width))
	default:
		return cutLine(printable(m.note), m.width)
	}
}

// keys is the last line: what can be done here.
func (m *model) keys() string {
	does := "p pause/resume  enter jobs"
	switch m.of.page {
	case pageQueues:
	case pageRunning:
		does = "k kill"
	case pageRetrying:
		does = "r retry now  k kill"
	case pageDead:
		does = "r retry"
	}
	return m.style.dim.Render(cutLine("↑↓ move  tab page  s sort  / filter  "+does+"  ? help  q quit", m.width))
}

var helpLines = []string{
	"",
	"  arrows, pages, home, end  move",
	"  tab, shift+tab, 1 2 3 4   queues, running, retrying, dead jobs",
	"  enter                     the jobs of the chosen queue",
	"  esc                       all jobs again",
	"  s  S                      sort by the next column, the other way",
	"  /                         show only what has a text in it",
	"  p                         pause or resume the chosen queue",
	"  r                         retry the chosen job now",
	"  k                         kill the chosen job: it is dead then",
	"  q                         quit",
	"",
	"  LATER is scheduled and blocked jobs, DEAD is dead, failed and buried ones.",
	"  OLDEST is how long the first ready job has been ready.",
	"",
	"  Any key goes back.",
}
