package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/spf13/cobra"

	"millrace/internal/api"
	"millrace/internal/apiclient"
)

// transfer runs what copies jobs from or to the server, until it is done or interrupted, with a bar that shows how
// far it is.
func (f *apiFlags) transfer(cmd *cobra.Command, run func(context.Context, *apiclient.Client, *progress) error) error {
	return f.ask(func(c *apiclient.Client) error {
		ctx, stop := f.p.interruptible(cmd.Context())
		defer stop()
		bar := newProgress(cmd.ErrOrStderr())
		defer bar.stop()
		return run(ctx, c, bar)
	})
}

// fileOf returns the file that a command was given; none means standard input or output.
func fileOf(args []string) string {
	if len(args) == 0 || args[0] == "-" {
		return ""
	}
	return args[0]
}

// exportLine is a line of an export.
type exportLine struct {
	text []byte // with its end, which only the last may lack
	mark *api.ExportMark
}

// isJob reports whether the line is that of a job.
func (l *exportLine) isJob() bool {
	return l.mark == nil && !bytes.HasPrefix(l.text, []byte(`{"kind"`))
}

// whole reports whether nothing of the line was cut off.
func (l *exportLine) whole() bool { return bytes.HasSuffix(l.text, []byte("\n")) }

// exportLines returns the lines of an export. An error is the last of all.
func exportLines(r io.Reader) iter.Seq2[exportLine, error] {
	return func(yield func(exportLine, error) bool) {
		in := bufio.NewReaderSize(r, 1<<20)
		for {
			text, err := in.ReadBytes('\n')
			if len(text) > 0 && (err == nil || errors.Is(err, io.EOF)) && !yield(exportLine{text, markOf(text)}, nil) {
				return
			}
			if err != nil {
				if !errors.Is(err, io.EOF) {
					yield(exportLine{}, err)
				}
				return
			}
		}
	}
}

// heldMax is how many lines, and heldBytes how many bytes, may come before a mark; an export has one more often.
const (
	heldMax   = 2000
	heldBytes = 256 << 20
)

// verifier holds lines of an export back until a mark tells that they are whole.
type verifier struct {
	ignore bool // wrong checksums

	sum    uint32
	lines  uint64 // without marks
	number uint64 // of the last line
	good   uint64 // the last line that is known to be good
	known  bool   // the export has checksums
	ended  bool   // its end was there
	held   []exportLine
	bytes  int
}

// add takes the next line, and returns the lines that may be used.
func (v *verifier) add(line exportLine) ([]exportLine, error) {
	v.number++
	v.held = append(v.held, line)
	v.bytes += len(line.text)
	m := line.mark
	if m == nil {
		v.sum, v.lines = api.Checksum(v.sum, line.text), v.lines+1
		v.ended = false
		switch long := len(v.held) > heldMax || v.bytes > heldBytes; {
		case !long && !v.ignore:
			return nil, nil
		case v.known && !v.ignore:
			return nil, v.damaged("it has no checksum")
		}
		return v.release(), nil
	}
	switch {
	case m.Checksum == "": // of an older release
		v.sum, v.lines = 0, 0
	case !v.ignore && m.Checksum != api.ShowChecksum(v.sum):
		return nil, v.damaged(fmt.Sprintf("its checksum is %s instead of %s", api.ShowChecksum(v.sum), m.Checksum))
	case !v.ignore && m.Lines != v.lines:
		return nil, v.damaged(fmt.Sprintf("it has %d lines instead of %d", v.lines, m.Lines))
	default:
		v.known = true
	}
	if v.ended = m.Mark == api.MarkEnd; v.ended { // another may follow
		v.sum, v.lines = 0, 0
	}
	return v.release(), nil
}

func (v *verifier) release() []exportLine {
	out := v.held
	v.held, v.bytes, v.good = nil, 0, v.number
	return out
}

// rest returns the lines that no mark has followed, at the end of the input.
func (v *verifier) rest() ([]exportLine, error) {
	if v.known && !v.ended && !v.ignore {
		return nil, fail(fmt.Errorf("the export is cut off: it has no end, and is good up to line %d", v.good))
	}
	return v.release(), nil
}

func (v *verifier) damaged(how string) error {
	return fail(fmt.Errorf("the export is damaged between line %d and line %d: %s. It is good up to line %d.\n"+
		"If it was changed on purpose, add --ignore-checksums", v.good+1, v.number, how, v.good))
}

// markOf reads a line that is a mark; nil if it is none.
func markOf(line []byte) *api.ExportMark {
	if !bytes.HasPrefix(line, []byte(`{"mark"`)) {
		return nil
	}
	m := new(api.ExportMark)
	if json.Unmarshal(line, m) != nil {
		return nil
	}
	return m
}
