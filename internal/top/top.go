package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
)

// Options say what is shown, and where.
type Options struct {
	API     API
	Address string        // of the server, to be shown
	Every   time.Duration // how often the server is asked; zero is every second
	Input   io.Reader     // a terminal
	Output  io.Writer
	Environ []string // of the terminal
}

// everyDefault is how often the server is asked; it takes a sample as often.
const everyDefault = time.Second

// Run shows the server until the user has seen enough, or ctx ends. That the server cannot be asked at all is
// told before the screen changes.
func Run(ctx context.Context, o Options) error {
	if o.Every <= 0 {
		o.Every = everyDefault
	}
	first, err := load(ctx, o.API, query{})
	if err != nil {
		return err
	}
	m := newModel(o.Address, first)
	m.load = func(q query) tea.Cmd {
		return func() tea.Msg {
			s, err := load(ctx, o.API, q)
			return dataMsg{s, err}
		}
	}
	m.do = func(ord order) tea.Cmd {
		return func() tea.Msg { return doneMsg{ord, carryOut(ctx, o.API, ord)} }
	}
	m.tick = func() tea.Cmd {
		return tea.Tick(o.Every, func(time.Time) tea.Msg { return tickMsg{} })
	}
	_, err = tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(o.Input), tea.WithOutput(o.Output),
		tea.WithEnvironment(o.Environ)).Run()
	if err != nil && ctx.Err() == nil && !errors.Is(err, tea.ErrInterrupted) {
		return fmt.Errorf("show the screen: %w", err)
	}
	return nil
}

// Look asks the server for what Run shows first.
func Look(ctx context.Context, server API) (Snapshot, error) { return load(ctx, server, query{}) }

// Frame returns what a screen of some width would show, with every row and without colours.
func Frame(address string, s Snapshot, width int) string {
	m := newModel(address, s)
	m.style, m.cursor = styles{}, -1
	all := append(m.head(width)[:3], m.table(width, 0, m.rows())...)
	var b strings.Builder
	for _, line := range all {
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}
