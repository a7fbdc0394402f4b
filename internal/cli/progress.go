package cli

import (
	"fmt"
	"io"
	"strings"
	"time"
)

const (
	drawEvery = 100 * time.Millisecond // a bar, on a terminal
	lineEvery = 10 * time.Second       // a line, elsewhere
	barWidth  = 30
)

// progress shows how far long work is: a bar on a terminal, plain lines elsewhere. What
// cannot be written is let go: the outcome does not depend on it.
type progress struct {
	w        io.Writer
	terminal bool
	shown    time.Time
	phase    string
	note     string // what else to tell
}

func newProgress(w io.Writer) *progress { return &progress{w: w, terminal: isTerminal(w)} }

// update shows a phase. Its end, where done equals total, is always shown.
func (p *progress) update(phase string, done, total uint64) {
	every := lineEvery
	if p.terminal {
		every = drawEvery
	}
	if phase != p.phase { // the first line comes after a while, not at once
		p.phase, p.shown = phase, time.Now()
	}
	if done != total && time.Since(p.shown) < every {
		return
	}
	p.shown = time.Now()
	switch {
	case !p.terminal && done == total:
		_, _ = fmt.Fprintf(p.w, "%s: %d done\n", phase, done)
	case !p.terminal && total == 0:
		_, _ = fmt.Fprintf(p.w, "%s: %d so far\n", phase, done)
	case !p.terminal:
		_, _ = fmt.Fprintf(p.w, "%s: %d of %d%s\n", phase, done, total, p.note)
	case done == total:
		_, _ = fmt.Fprintf(p.w, "\r\x1b[K%-10s %d done\n", phase, done)
	case total == 0:
		_, _ = fmt.Fprintf(p.w, "\r\x1b[K%-10s %d", phase, done)
	default:
		full := int(done * barWidth / total) //nolint:gosec // at most barWidth
		_, _ = fmt.Fprintf(p.w, "\r\x1b[K%-10s [%s%s] %d %%%s", phase,
			strings.Repeat("#", full), strings.Repeat(".", barWidth-full), done*100/total, p.note)
	}
}

// stop ends a bar that stands on the line, before something else is printed.
func (p *progress) stop() {
	if p != nil && p.terminal && p.phase != "" {
		_, _ = io.WriteString(p.w, "\r\x1b[K")
	}
}
