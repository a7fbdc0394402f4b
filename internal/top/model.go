package top

import (
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"millrace/internal/api"
)

// model is what is shown. Only Update changes it.
type model struct {
	// load asks the server, do has something done, tick waits for the next look. They return at once; what
	// comes of it arrives as a message.
	load func(query) tea.Cmd
	do   func(order) tea.Cmd
	tick func() tea.Cmd

	style         styles
	address       string
	width, height int

	of       query // what is looked at
	data     Snapshot
	err      error // of the last look
	loading  bool
	queues   table[api.Queue]
	jobs     [pageCount]table[api.JobRow]
	cursor   int     // the row that is chosen
	chosen   rowName // and what it shows, so that the choice stays when rows move
	offset   int     // the first row on the screen
	typing   bool    // the filter is being typed
	question *order  // waits for a yes
	note     string  // what has happened last
	failed   bool    // and whether it went wrong
	help     bool
}

// rowName names what a row shows.
type rowName struct {
	queue queueRef
	job   uint64
}

type (
	// dataMsg is what the server has answered.
	dataMsg struct {
		data Snapshot
		err  error
	}
	// tickMsg tells that it is time to look again.
	tickMsg struct{}
	// doneMsg tells what became of an order.
	doneMsg struct {
		order order
		err   error
	}
)

func newModel(address string, first Snapshot) *model {
	m := &model{address: address, width: 80, height: 24, queues: queueTable(), style: colours()}
	for p := range page(pageCount) {
		m.jobs[p] = jobTable(p)
	}
	m.of = first.of
	m.take(first)
	return m
}

// Init waits for the next look: the first has been taken.
func (m *model) Init() tea.Cmd { return m.tick() }

// Update takes one message.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
		m.scroll()
	case tea.KeyPressMsg:
		return m, m.key(msg)
	case tickMsg:
		if m.loading {
			return m, m.tick() // the server is slow; another request would not help it
		}
		return m, tea.Batch(m.look(), m.tick())
	case dataMsg:
		if msg.data.of != m.of {
			break // of a page that is not looked at any more
		}
		m.loading = false
		if m.err = msg.err; m.err == nil {
			m.take(msg.data)
		}
	case doneMsg:
		if m.failed = msg.err != nil; m.failed {
			m.note = msg.err.Error()
		} else {
			m.note = msg.order.text
		}
		return m, m.look()
	}
	return m, nil
}

// look asks the server for what is looked at.
func (m *model) look() tea.Cmd {
	m.loading = true
	return m.load(m.of)
}

// take shows what the server has answered.
func (m *model) take(s Snapshot) {
	m.data = s
	m.arrange()
}

// arrange sorts what is shown and finds the row that is chosen.
func (m *model) arrange() {
	m.queues.sort(m.data.Queues)
	if m.of.page != pageQueues {
		part := strings.ToLower(m.of.filter)
		m.data.Jobs = slices.DeleteFunc(m.data.Jobs, func(j api.JobRow) bool { return !matches(&j, part) })
	}
	m.jobs[m.of.page].sort(m.data.Jobs)
	if i := m.find(m.chosen); i >= 0 {
		m.cursor = i
	}
	m.choose(m.cursor)
}

// matches reports whether a job has a text in what is shown of it. The server looks for parts of the names of
// queues; jobs are looked at here.
func matches(j *api.JobRow, part string) bool {
	for _, s := range []string{
		jobQueue(j, time.Time{}), jobName(j, time.Time{}), j.Type, lastError(j, time.Time{}),
		worker(j, time.Time{}),
	} {
		if strings.Contains(strings.ToLower(s), part) {
			return true
		}
	}
	return false
}

// rows returns how many there are.
func (m *model) rows() int {
	if m.of.page == pageQueues {
		return len(m.data.Queues)
	}
	return len(m.data.Jobs)
}

func (m *model) nameOf(row int) rowName {
	if m.of.page == pageQueues {
		q := &m.data.Queues[row]
		return rowName{queue: queueRef{q.Namespace, q.Name}}
	}
	j := &m.data.Jobs[row]
	return rowName{queueRef{j.Namespace, j.Queue}, uint64(j.ID)}
}

func (m *model) find(n rowName) int {
	for i := range m.rows() {
		if m.nameOf(i) == n {
			return i
		}
	}
	return -1
}

// choose moves the cursor to a row, as far as there is one.
func (m *model) choose(row int) {
	m.cursor = min(max(row, 0), max(m.rows()-1, 0))
	m.chosen = rowName{}
	if m.rows() > 0 {
		m.chosen = m.nameOf(m.cursor)
	}
	m.scroll()
}

// scroll keeps the cursor on the screen.
func (m *model) scroll() {
	room := m.room()
	m.offset = min(m.offset, m.cursor)
	m.offset = max(m.offset, m.cursor-room+1)
	m.offset = max(min(m.offset, m.rows()-room), 0)
}

// turn shows another page, from its top.
func (m *model) turn(q query) tea.Cmd {
	m.of = q
	m.data.Queues, m.data.Jobs, m.data.More = nil, nil, false
	m.cursor, m.offset, m.chosen = 0, 0, rowName{}
	return m.look()
}
