package top

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"millrace/internal/api"
	"millrace/internal/job"
	"millrace/internal/testkit"
)

var now = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// fake is a server that answers what it was given and notes what it is asked to do.
type fake struct {
	queues []api.Queue
	jobs   []api.JobRow
	err    error
	done   []string
	asked  []string
}

func (f *fake) Server(context.Context) (api.ServerInfo, error) {
	return api.ServerInfo{
		Version: "1.2.3", UptimeSeconds: 93784, Now: now, Durability: "fsync", Ready: true,
		Role: "operate",
	}, f.err
}

func (f *fake) Live(context.Context) (api.Sample, error) {
	return api.Sample{
		Rates: api.Rates{Pushed: 1204, Fetched: 1199.4, Acked: 1190, Failed: 2.34}, Waiting: 17,
		Counts: map[string]uint64{
			"ready": 1234567, "running": 32, "scheduled": 5, "blocked": 1,
			"retrying": 4, "dead": 3,
		},
	}, f.err
}

func (f *fake) Queues(_ context.Context, filter api.QueueFilter, _ api.PageOf) (p api.QueuePage, err error) {
	f.asked = append(f.asked, "queues "+filter.Name)
	for _, q := range f.queues {
		if strings.Contains(q.Name, filter.Name) {
			p.Queues = append(p.Queues, q)
		}
	}
	return p, f.err
}

func (f *fake) Jobs(_ context.Context, filter api.Filter, _ api.PageOf) (p api.JobPage, err error) {
	f.asked = append(f.asked, fmt.Sprintf("jobs %s/%s %v", filter.Namespace, filter.Queue, filter.States))
	for _, j := range f.jobs {
		if strings.Contains(strings.Join(filter.States, ","), j.State) &&
			(filter.Queue == "" || filter.Queue == j.Queue) {
			p.Jobs = append(p.Jobs, j)
		}
	}
	return p, f.err
}

func (f *fake) Pause(_ context.Context, namespace, queue string, _ time.Duration) (api.Queue, error) {
	f.done = append(f.done, "pause "+namespace+"/"+queue)
	return api.Queue{}, f.err
}

func (f *fake) Resume(_ context.Context, namespace, queue string) (api.Queue, error) {
	f.done = append(f.done, "resume "+namespace+"/"+queue)
	return api.Queue{}, f.err
}

func (f *fake) ActAll(_ context.Context, a api.Action, targets []api.Target, _ api.With) ([]api.Outcome, error) {
	f.done = append(f.done, fmt.Sprintf("%s %v", a, targets))
	if targets[0].ID == 13 {
		return []api.Outcome{{ID: 13, Problem: &api.Problem{
			Status: 409,
			Detail: "the job is not in a state for this",
		}}}, nil
	}
	return []api.Outcome{{ID: targets[0].ID, Done: true}}, f.err
}

// queue makes a queue with some jobs.
func queue(namespace, name string, oldest float64, counts map[string]uint64, rates api.Rates) api.Queue {
	q := api.Queue{Namespace: namespace, Name: name, Counts: counts, Rates: rates}
	if oldest >= 0 {
		q.OldestReadySeconds = &oldest
	}
	return q
}

// busy is a server with something on every page.
func busy() *fake {
	at := func(ago time.Duration) *time.Time { t := now.Add(-ago); return &t }
	left := 42.0
	paused := queue("default", "thumbnails", 3725, map[string]uint64{"ready": 12}, api.Rates{})
	paused.Paused = true
	return &fake{
		queues: []api.Queue{
			queue("default", "empty", -1, nil, api.Rates{}),
			queue("default", "mails", 1.25, map[string]uint64{
				"ready": 123456, "running": 31, "scheduled": 5,
				"retrying": 2,
			}, api.Rates{Pushed: 1200, Fetched: 1199.4, Acked: 1190, Failed: 2.3}),
			paused,
			queue("shop", "a queue of a very long name with a \x1b[31m trick", 0.04,
				map[string]uint64{"ready": 1, "dead": 2, "failed": 1}, api.Rates{Pushed: 0.25}),
			queue("default", "報告書", 86400*3, map[string]uint64{"ready": 1111111}, api.Rates{}),
		},
		jobs: []api.JobRow{
			{
				ID: 7, Namespace: "default", Queue: "mails", Type: "Welcome", State: job.Leased.Name(),
				Since: at(3 * time.Second), Lease: &api.Lease{
					FetchedBy: "faktory", Worker: "web-1:4711",
					LeftSeconds: &left,
				},
			},
			{
				ID: 8, Namespace: "shop", Queue: "orders", Key: "01J8ZQ4Y0000000000000000", State: job.Leased.Name(),
				Since: at(2 * time.Hour), Lease: &api.Lease{FetchedBy: "workq"},
			},
			{
				ID: 13, Namespace: "default", Queue: "mails", Type: "Digest", State: job.Retrying.Name(),
				RunAt: at(-90 * time.Second), Fails: 3, LastError: &api.Failure{
					Kind: "worker", Type: "SMTPError",
					Message: "connection refused\nby mail.example.com",
				},
			},
			{
				ID: 14, Namespace: "default", Queue: "mails", Type: "Digest", State: job.Dead.Name(),
				Since: at(26 * time.Hour), Fails: 25, LastError: &api.Failure{Kind: "lapse"},
			},
			{
				ID: 15, Namespace: "default", Queue: "mails", Type: "Odd", State: job.Buried.Name(),
				Since: at(time.Minute),
			},
		},
	}
}

// session is a model that is driven by a test. Its orders are carried out at once, its time stands still.
type session struct {
	*model
	t      *testing.T
	server *fake
	quits  bool
}

func start(t *testing.T, server *fake, width, height int) *session {
	t.Helper()
	first, err := load(t.Context(), server, query{})
	if err != nil {
		t.Fatal(err)
	}
	m := newModel("http://127.0.0.1:7420", first)
	m.style = styles{}
	m.load = func(q query) tea.Cmd {
		return func() tea.Msg {
			s, err := load(t.Context(), server, q)
			return dataMsg{s, err}
		}
	}
	m.do = func(o order) tea.Cmd { return func() tea.Msg { return doneMsg{o, carryOut(t.Context(), server, o)} } }
	m.tick = func() tea.Cmd { return nil }
	s := &session{model: m, t: t, server: server}
	s.send(tea.WindowSizeMsg{Width: width, Height: height})
	return s
}

// send hands over a message and everything that comes of it.
func (s *session) send(msg tea.Msg) {
	_, cmd := s.Update(msg)
	if cmd == nil {
		return
	}
	switch msg := cmd().(type) {
	case nil:
	case tea.QuitMsg:
		s.quits = true
	case tea.BatchMsg:
		for _, c := range msg {
			if c != nil {
				s.send(c())
			}
		}
	default:
		s.send(msg)
	}
}

// press presses keys, named as tea does; other texts are typed.
func (s *session) press(keys ...string) {
	codes := map[string]rune{
		"tab": tea.KeyTab, "enter": tea.KeyEnter, "esc": tea.KeyEscape, "up": tea.KeyUp, "down": tea.KeyDown,
		"backspace": tea.KeyBackspace,
		"pgdown":    tea.KeyPgDown, "pgup": tea.KeyPgUp, "home": tea.KeyHome, "end": tea.KeyEnd, "left": tea.KeyLeft,
		"right": tea.KeyRight,
	}
	for _, k := range keys {
		if code, ok := codes[k]; ok {
			s.send(tea.KeyPressMsg{Code: code})
			continue
		}
		for _, r := range k {
			s.send(tea.KeyPressMsg{Code: r, Text: string(r)})
		}
	}
}

func (s *session) screen() string { return s.View().Content }

// wants compares the screen with a file.
func (s *session) wants(name string) {
	s.t.Helper()
	got := s.screen()
	for i, line := range strings.Split(got, "\n") {
		if w := lipgloss.Width(line); w > s.width {
			s.t.Errorf("%s: line %d is %d wide: %q", name, i+1, w, line)
		}
	}
	if n := strings.Count(got, "\n") + 1; n != s.height {
		s.t.Errorf("%s: %d lines on a screen of %d", name, n, s.height)
	}
	compare(s.t, name, got)
}

func compare(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	var b strings.Builder
	for line := range strings.Lines(got) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	if testkit.Updating() {
		if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("%s is\n%s\nand not\n%s", name, b.String(), want)
	}
}

func TestScreens(t *testing.T) {
	t.Parallel()
	for _, size := range []struct{ width, height int }{{80, 24}, {120, 40}} {
		s := start(t, busy(), size.width, size.height)
		name := func(n string) string { return fmt.Sprintf("%s-%dx%d", n, size.width, size.height) }
		s.wants(name("queues"))
		s.press("tab")
		s.wants(name("running"))
		s.press("3")
		s.wants(name("retrying"))
		s.press("right")
		s.wants(name("dead"))
		s.press("?")
		s.wants(name("help"))
	}
}

// On a screen that is far too small nothing breaks.
func TestTinyScreen(t *testing.T) {
	t.Parallel()
	for _, size := range []struct{ width, height int }{{20, 8}, {1, 1}, {0, 0}} {
		s := start(t, busy(), size.width, size.height)
		s.press("down", "tab", "?", "q", "/", "x", "esc", "pgdown", "k")
		if s.screen() == "" {
			t.Errorf("%v: nothing is shown", size)
		}
	}
}

func TestSort(t *testing.T) {
	t.Parallel()
	s := start(t, busy(), 80, 24)
	order := func() string {
		var names []string
		for _, q := range s.data.Queues {
			names = append(names, q.Name[:5])
		}
		return strings.Join(names, " ")
	}
	if got := order(); got != "報\xe5\x91 thumb mails a que empty" {
		t.Errorf("the oldest are not first: %q", got)
	}
	s.press("s") // by name
	if got := order(); got != "empty mails thumb 報\xe5\x91 a que" {
		t.Errorf("by name: %q", got)
	}
	s.press("S")
	if got := order(); got != "a que 報\xe5\x91 thumb mails empty" {
		t.Errorf("by name, the other way: %q", got)
	}
	s.press("s") // by ready jobs
	if got := order(); got != "報\xe5\x91 mails thumb a que empty" {
		t.Errorf("by size: %q", got)
	}
	// Columns that are not shown are passed over.
	s.press("ssssss")
	if s.queues.columns[s.queues.by].title != "ACK/S" {
		t.Errorf("sorted by %s", s.queues.columns[s.queues.by].title)
	}
	s.press("s")
	if s.queues.columns[s.queues.by].title != "OLDEST" {
		t.Errorf("sorted by %s", s.queues.columns[s.queues.by].title)
	}
}

// The choice stays with what was chosen, wherever that moves.
func TestChoice(t *testing.T) {
	t.Parallel()
	s := start(t, busy(), 80, 24)
	s.press("down", "down")
	if s.chosen.queue.name != "mails" {
		t.Fatalf("%v is chosen", s.chosen)
	}
	s.press("s")
	if s.chosen.queue.name != "mails" || s.cursor != 1 {
		t.Errorf("%v is chosen, in row %d", s.chosen, s.cursor)
	}
	s.server.queues = s.server.queues[2:] // it is gone
	s.send(tickMsg{})
	if s.chosen.queue.name == "mails" || s.cursor != 1 {
		t.Errorf("%v is chosen, in row %d", s.chosen, s.cursor)
	}
	s.press("end", "down")
	if s.cursor != s.rows()-1 {
		t.Errorf("row %d", s.cursor)
	}
	s.press("home", "up")
	if s.cursor != 0 {
		t.Errorf("row %d", s.cursor)
	}
}

func TestScroll(t *testing.T) {
	t.Parallel()
	server := &fake{}
	for i := range 100 {
		server.queues = append(server.queues, queue("default", fmt.Sprintf("q%02d", i), -1, nil, api.Rates{}))
	}
	s := start(t, server, 80, 24)
	for key, want := range map[string][2]string{"pgdown": {"q17", "q01"}, "end": {"q99", "q83"}} {
		s.press("home", key)
		lines := strings.Split(s.screen(), "\n")
		if got := s.chosen.queue.name; got != want[0] || !strings.HasPrefix(lines[5], want[1]) {
			t.Errorf("%s: %s is chosen, below %s", key, got, lines[5])
		}
	}
	s.send(tea.WindowSizeMsg{Width: 80, Height: 10})
	if !strings.Contains(s.screen(), s.chosen.queue.name) {
		t.Error("the choice is not on the smaller screen")
	}
}

func TestFilter(t *testing.T) {
	t.Parallel()
	s := start(t, busy(), 80, 24)
	s.press("/", "mai")
	if got := s.server.asked[len(s.server.asked)-1]; got != "queues mai" || s.rows() != 1 {
		t.Errorf("asked %q, %d rows", got, s.rows())
	}
	s.wants("filter")
	s.press("enter", "q")
	if !s.quits {
		t.Error("a key after the filter is still typed")
	}
	s.press("/", "x", "backspace", "backspace", "esc")
	if s.of.filter != "" || s.rows() != 5 || s.typing {
		t.Errorf("%q and %d rows are left", s.of.filter, s.rows())
	}
	// Jobs are looked at in all that is shown.
	s.press("2", "/", "WEB-1", "enter")
	if s.rows() != 1 || s.chosen.job != 7 {
		t.Errorf("%d rows, %v", s.rows(), s.chosen)
	}
	s.press("/", "zzz", "enter")
	s.wants("nothing")
	s.press("esc")
	if s.rows() != 2 {
		t.Errorf("%d rows", s.rows())
	}
}

func TestJobsOfQueue(t *testing.T) {
	t.Parallel()
	s := start(t, busy(), 80, 24)
	s.press("down", "down", "enter")
	if got := s.server.asked[len(s.server.asked)-1]; got != "jobs default/mails [running]" || s.rows() != 1 {
		t.Errorf("asked %q, %d rows", got, s.rows())
	}
	s.press("tab")
	s.wants("jobs-of-queue")
	s.press("esc")
	if s.of != (query{}) {
		t.Errorf("%+v", s.of)
	}
}

func TestPause(t *testing.T) {
	t.Parallel()
	s := start(t, busy(), 80, 24)
	s.press("down", "p", "down", "p")
	if got := fmt.Sprint(s.server.done); got != "[resume default/thumbnails pause default/mails]" {
		t.Errorf("%s", got)
	}
	if !strings.Contains(s.status(), "mails is paused") {
		t.Errorf("%q", s.status())
	}
	s.server.err = &api.Problem{Status: 403, Title: "forbidden", Detail: "this needs the role operate"}
	s.press("p")
	if !strings.Contains(s.screen(), "this needs the role operate") {
		t.Errorf("%q", s.status())
	}
	s.server.err = nil
	s.press("2", "p")
	if len(s.server.done) != 3 || !strings.Contains(s.status(), "choose one on the first page") {
		t.Errorf("%q, %q", s.server.done, s.status())
	}
}

func TestKill(t *testing.T) {
	t.Parallel()
	s := start(t, busy(), 80, 24)
	s.press("k", "2", "end", "k")
	s.wants("question")
	s.press("n")
	if len(s.server.done) != 0 {
		t.Fatalf("%q without a yes", s.server.done)
	}
	s.press("k", "y")
	if got := fmt.Sprint(s.server.done); got != "[kill [{default mails 7 running}]]" ||
		s.status() != "job 7 of mails is dead" {
		t.Errorf("%s, %q", got, s.status())
	}
	s.press("4", "k")
	if s.question != nil {
		t.Error("a dead job is killed")
	}
}

func TestRetry(t *testing.T) {
	t.Parallel()
	s := start(t, busy(), 80, 24)
	s.press("r", "2", "r", "3", "r")
	if got := fmt.Sprint(s.server.done); got != "[retry [{default mails 13 retrying}]]" {
		t.Errorf("%s", got)
	}
	if !strings.Contains(s.status(), "job 13: ") {
		t.Errorf("%q", s.status())
	}
	s.press("4", "r", "down", "r")
	if got := fmt.Sprint(s.server.done[1:]); got != "[retry [{default mails 14 dead}] kick [{default "+
		"mails 15 buried}]]" {
		t.Errorf("%s", got)
	}
}

// A server that is gone for a while is asked again, and what was there stays on the screen.
func TestServerGone(t *testing.T) {
	t.Parallel()
	s := start(t, busy(), 80, 24)
	s.server.err = errors.New("no answer from http://127.0.0.1:7420: connection refused")
	s.send(tickMsg{})
	s.wants("gone")
	s.server.err = nil
	s.send(tickMsg{})
	if s.err != nil || strings.Contains(s.screen(), "refused") {
		t.Errorf("%v", s.err)
	}
}

// An answer that comes late does not show another page than the one that is looked at, and a slow server is not
// asked twice.
func TestLateAnswer(t *testing.T) {
	t.Parallel()
	s := start(t, busy(), 80, 24)
	late := s.look()
	if _, cmd := s.Update(tickMsg{}); cmd != nil {
		t.Error("a server that has not answered is asked again")
	}
	s.press("2")
	s.send(late())
	if s.rows() != 2 || s.of.page != pageRunning {
		t.Errorf("%d rows on page %d", s.rows(), s.of.page)
	}
}

func TestFrame(t *testing.T) {
	t.Parallel()
	server := busy()
	first, err := Look(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	compare(t, "once", Frame("http://127.0.0.1:7420", first, 100))
	first, err = Look(t.Context(), &fake{})
	if err != nil {
		t.Fatal(err)
	}
	compare(t, "once-empty", Frame("http://127.0.0.1:7420", first, 80))
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	for n, want := range map[float64]string{
		0: "0", 0.04: "0", 0.06: "0.1", 1: "1", 2.34: "2.3", 9.96: "10", 99999: "99999", 123456: "123.5k",
		1234567: "1235k", 12345678: "12.3M", 5e12: "5000G", 5e13: "50T",
	} {
		if got := number(n); got != want || len(got) > 6 {
			t.Errorf("%v is shown as %s, not %s", n, got, want)
		}
	}
	for _, c := range []struct {
		d    time.Duration
		want string
	}{
		{-time.Second, "0.0s"},
		{0, "0.0s"},
		{1250 * time.Millisecond, "1.2s"},
		{99 * time.Second, "99s"},
		{100 * time.Second, "1m40s"},
		{3725 * time.Second, "62m05s"},
		{26 * time.Hour, "26h00m"},
		{3 * 24 * time.Hour, "3d00h"},
		{400 * 24 * time.Hour, "400d"},
	} {
		if got := span(c.d); got != c.want || len(got) > 6 {
			t.Errorf("%v is shown as %s, not %s", c.d, got, c.want)
		}
	}
}
