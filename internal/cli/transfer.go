package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"

	"github.com/spf13/cobra"

	"millrace/internal/admin"
	"millrace/internal/apiclient"
)

// transfer runs what copies jobs from or to the server, until it is done or interrupted, with a bar that shows how
// far it is.
func (f *apiFlags) transfer(cmd *cobra.Command, run func(context.Context, *apiclient.Client, *progress) error) error {
	c, err := f.client()
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, stop := f.p.interruptible(cmd.Context())
	defer stop()
	bar := newProgress(cmd.ErrOrStderr())
	err = run(ctx, c, bar)
	bar.stop()
	return apiError(err)
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
	mark *admin.ExportMark
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

// markOf reads a line that is a mark; nil if it is none.
func markOf(line []byte) *admin.ExportMark {
	if !bytes.HasPrefix(line, []byte(`{"mark"`)) {
		return nil
	}
	m := new(admin.ExportMark)
	if json.Unmarshal(line, m) != nil {
		return nil
	}
	return m
}
