package top

import (
	"fmt"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"millrace/internal/api"
	"millrace/internal/job"
)

// key does what a key stands for.
func (m *model) key(k tea.KeyPressMsg) tea.Cmd {
	name := k.String()
	switch {
	case name == "ctrl+c":
		return tea.Quit
	case m.question != nil:
		return m.answer(name)
	case m.typing:
		return m.typed(k)
	case m.help:
		m.help = false
		return nil
	}
	m.note, m.failed = "", false
	if m.moved(name) {
		return nil
	}
	switch name {
	case "q":
		return tea.Quit
	case "?", "h":
		m.help = true
	case "tab", "right":
		return m.turn(query{page: (m.of.page + 1) % page(pageCount), queue: m.of.queue})
	case "shift+tab", "left":
		return m.turn(query{page: (m.of.page + page(pageCount) - 1) % page(pageCount), queue: m.of.queue})
	case "1", "2", "3", "4":
		return m.turn(query{page: page(name[0] - '1'), queue: m.of.queue})
	case "enter":
		if m.of.page == pageQueues && m.rows() > 0 {
			return m.turn(query{page: pageRunning, queue: m.chosen.queue})
		}
	case "esc":
		return m.back()
	case "/":
		m.typing = true
	case "s":
		m.sortBy(false)
	case "S":
		m.sortBy(true)
	case "p":
		return m.pause()
	case "r":
		return m.retry()
	case "k":
		m.kill()
	}
	return nil
}

// moved moves the cursor if the key does that.
func (m *model) moved(name string) bool {
	switch name {
	case "up":
		m.choose(m.cursor - 1)
	case "down":
		m.choose(m.cursor + 1)
	case "pgup":
		m.choose(m.cursor - m.room())
	case "pgdown":
		m.choose(m.cursor + m.room())
	case "home", "g":
		m.choose(0)
	case "end", "G":
		m.choose(m.rows() - 1)
	default:
		return false
	}
	return true
}

// back takes away what narrows the list: first the filter, then the queue.
func (m *model) back() tea.Cmd {
	switch {
	case m.of.filter != "":
		return m.turn(query{page: m.of.page, queue: m.of.queue})
	case m.of.queue != queueRef{}:
		return m.turn(query{page: pageQueues})
	}
	return nil
}

// filterMax bounds what can be typed.
const filterMax = 40

// typed takes a key of the filter. The list follows at once.
func (m *model) typed(k tea.KeyPressMsg) tea.Cmd {
	q := m.of
	switch k.String() {
	case "enter":
		m.typing = false
		return nil
	case "esc":
		m.typing = false
		q.filter = ""
	case "backspace":
		_, size := utf8.DecodeLastRuneInString(q.filter)
		q.filter = q.filter[:len(q.filter)-size]
	case "ctrl+u":
		q.filter = ""
	default:
		if k.Text == "" || len(q.filter)+len(k.Text) > filterMax {
			return nil
		}
		q.filter += k.Text
	}
	if q == m.of {
		return nil
	}
	return m.turn(q)
}

// sortBy sorts by the next column, or the other way round.
func (m *model) sortBy(reverse bool) {
	if m.of.page == pageQueues {
		turnTable(&m.queues, reverse, m.width)
	} else {
		turnTable(&m.jobs[m.of.page], reverse, m.width)
	}
	m.arrange()
}

func turnTable[T any](t *table[T], reverse bool, width int) {
	if reverse {
		t.reverse = !t.reverse
		return
	}
	t.reverse = false
	t.next(width)
}

// pause stops fetches from the chosen queue, or lets them go on.
func (m *model) pause() tea.Cmd {
	if m.of.page != pageQueues || m.rows() == 0 {
		return m.say("p pauses a queue: choose one on the first page")
	}
	q := &m.data.Queues[m.cursor]
	o := order{queue: queueRef{q.Namespace, q.Name}, paused: !q.Paused}
	if o.text = queueName(q.Namespace, q.Name) + " goes on"; o.paused {
		o.text = queueName(q.Namespace, q.Name) + " is paused"
	}
	return m.do(o)
}

// say notes why a key does nothing.
func (m *model) say(text string) tea.Cmd {
	m.note, m.failed = text, true
	return nil
}

// aimed makes an order for the chosen job.
func (m *model) aimed(a api.Action, done string) order {
	j := &m.data.Jobs[m.cursor]
	return order{
		text:   fmt.Sprintf("job %s of %s %s", jobName(j, m.data.Server.Now), jobQueue(j, m.data.Server.Now), done),
		action: a,
		target: api.Target{Namespace: j.Namespace, Queue: j.Queue, ID: j.ID, State: j.State},
	}
}

func (m *model) retry() tea.Cmd {
	switch {
	case m.of.page != pageRetrying && m.of.page != pageDead:
		return m.say("r retries a job: choose one that waits for its retry, or a dead one")
	case m.rows() == 0:
		return m.say("there is no job to retry")
	case m.data.Jobs[m.cursor].State == job.Buried.Name():
		return m.do(m.aimed(api.ActionKick, "is ready"))
	}
	return m.do(m.aimed(api.ActionRetry, "is ready"))
}

// kill asks first: a job that runs is taken from its worker.
func (m *model) kill() {
	switch {
	case m.of.page != pageRunning && m.of.page != pageRetrying:
		m.say("k kills a job: choose one that runs or waits for its retry")
	case m.rows() == 0:
		m.say("there is no job to kill")
	default:
		o := m.aimed(api.ActionKill, "is dead")
		m.question = &o
	}
}

// answer takes the answer to a question.
func (m *model) answer(name string) tea.Cmd {
	o := m.question
	m.question = nil
	if name == "y" || name == "Y" {
		return m.do(*o)
	}
	m.note, m.failed = "nothing was done", false
	return nil
}
