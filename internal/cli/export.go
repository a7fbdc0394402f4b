package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"millrace/internal/api"
	"millrace/internal/apiclient"
)

// exportLineMax bounds a line of an export.
const exportLineMax = 512 << 20

func newExportCommand(p Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export [FILE]",
		Short: "Write jobs of a running server as JSON lines",
		Long: `Write all jobs, or those that fit a filter, as JSON lines to FILE or standard output: one job on
each line, and every few hundred lines a mark with a checksum, from which an interrupted export goes
on. "millrace import" reads them.

Without a filter, or with --namespace alone, the export also has settings and hooks of queues,
batches and cron entries, so that an import into an empty server gives the same again. With --queue
it has the settings and the jobs of the queue. An export never has lifetime counters, progress
reports, locks whose job is gone, tokens, or the server's configuration.

It shows everything as it was at one moment, unless it takes more than two minutes or is resumed.
For an exact copy of everything, ids included, use "millrace backup".

With --resume an export to FILE that was cut off goes on behind its last mark. The filter must be
the same.`,
		Example: `  millrace export jobs.jsonl
  millrace export --queue mails --state dead | jq .body
  millrace export jobs.jsonl --resume
  millrace export | ssh other millrace import -`,
		Args: atMostOne("a file"),
	}
	filters := addFilter(cmd)
	resume := cmd.Flags().Bool("resume", false, "go on with FILE where an interrupted export has ended")
	force := cmd.Flags().Bool("force", false, "overwrite FILE")
	f := addAPI(cmd, p)
	must(cmd.Flags().MarkHidden("json")) // it is nothing else
	must(cmd.RegisterFlagCompletionFunc("queue", f.completeQueues(&filters.Namespace)))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		filter, err := filters.filter()
		if err != nil {
			return err
		}
		if *resume && fileOf(args) == "" {
			return errors.New("--resume: name the file to go on with")
		}
		e := &exporter{filter: filter, out: cmd.OutOrStdout()}
		err = f.transfer(cmd, func(ctx context.Context, c *apiclient.Client, bar *progress) error {
			e.client, e.bar = c, bar
			if path := fileOf(args); path != "" {
				return e.toFile(ctx, path, *resume, *force)
			}
			return e.run(ctx)
		})
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.ErrOrStderr(), "%s exported\n", plural(e.jobs, "job"))
		return fail(err)
	}
	return cmd
}

// exporter copies an export.
type exporter struct {
	client *apiclient.Client
	filter api.Filter
	out    io.Writer
	bar    *progress
	cursor string
	jobs   uint64
}

// toFile writes to a file, or goes on with one.
func (e *exporter) toFile(ctx context.Context, path string, resume, force bool) (err error) {
	flags := os.O_RDWR | os.O_CREATE
	if !resume && !force {
		flags |= os.O_EXCL
	}
	file, err := os.OpenFile(path, flags, 0o600) //nolint:gosec // the operator names the file
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s exists: add --resume to go on with it, or --force to overwrite it", path)
	}
	if err != nil {
		return fail(err)
	}
	defer func() {
		if cerr := file.Close(); err == nil {
			err = fail(cerr)
		}
	}()
	end := int64(0)
	if resume {
		var complete bool
		if end, complete, err = e.lastMark(file); err != nil || complete {
			return err
		}
	}
	if err := file.Truncate(end); err != nil {
		return fail(err)
	}
	if _, err := file.Seek(end, io.SeekStart); err != nil {
		return fail(err)
	}
	e.out = file
	if err := e.run(ctx); err != nil {
		return fmt.Errorf("%w\nTo go on later: millrace export %s --resume, with the same filter", apiError(err), path)
	}
	return fail(file.Sync())
}

// lastMark finds the last mark of a file: where it ends, and whether it is the end of the export.
func (e *exporter) lastMark(file io.Reader) (end int64, complete bool, err error) {
	var at int64
	var jobs uint64
	for line, err := range exportLines(file) {
		switch {
		case err != nil:
			return 0, false, fail(err)
		case !line.whole():
			return end, complete, nil
		}
		at += int64(len(line.text))
		if line.isJob() {
			jobs++
		}
		if line.mark == nil {
			continue
		}
		end, e.cursor, complete, e.jobs = at, line.mark.Cursor, line.mark.Mark == api.MarkEnd, jobs
	}
	return end, complete, nil
}

// run copies from the cursor to the end, with as many requests as it takes.
func (e *exporter) run(ctx context.Context) error {
	for {
		before := e.cursor
		done, err := e.request(ctx)
		if err != nil || done {
			return err
		}
		if e.cursor == before {
			return fail(errors.New("the export was cut off: is the server stopping?"))
		}
	}
}

// request copies one answer, as far as it is whole: up to its last mark. It reports whether that is the end.
func (e *exporter) request(ctx context.Context) (done bool, err error) {
	stream, err := e.client.Export(ctx, e.filter, e.cursor)
	if err != nil {
		return false, err
	}
	defer func() { _ = stream.Close() }()
	var part bytes.Buffer
	jobs := uint64(0)
	for line, err := range exportLines(stream) {
		switch {
		case ctx.Err() != nil:
			return false, ctx.Err()
		case err != nil:
			return false, &apiclient.Unreachable{URL: e.client.URL(), Err: err}
		case part.Len()+len(line.text) > exportLineMax:
			return false, fail(errors.New("the response is not a Millrace export: it has no checkpoints"))
		case !line.whole():
			return false, nil
		}
		part.Write(line.text)
		if line.isJob() {
			jobs++
		}
		if line.mark == nil {
			continue
		}
		if _, err := part.WriteTo(e.out); err != nil {
			return false, fail(err)
		}
		m := line.mark
		e.cursor, e.jobs, jobs = m.Cursor, e.jobs+jobs, 0
		e.bar.update("exporting", m.Examined, max(m.Total, m.Examined+1))
		if m.Mark == api.MarkEnd {
			return true, nil
		}
	}
	return false, nil
}
