package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/internal/api"
	"millrace/internal/apiclient"
)

const (
	importLines = 500     // of one request
	importBytes = 4 << 20 // as far as a line fits
	importTries = 5       // of one request, before it is given up
)

func newImportCommand(p Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import [FILE]",
		Short: "Read jobs that were exported into a running server",
		Long: `Read the JSON lines of "millrace export" from FILE or standard input, and push their jobs. Each job
keeps its state, attempts, failures, times, result and lock, its batch, and the jobs that it waits
for. Jobs that were running become ready. Jobs and batches get new ids. Settings and hooks of
queues, batches and cron entries are created as they were. Until its last line has been read, a
batch does not complete and a cron entry is paused.

The export has checksums. Lines are imported only when the checksum behind them has been read and is
right. An export that was damaged or cut off is imported up to there, and the command says where
that is. --ignore-checksums imports an export that was changed on purpose. An export without
checksums is read as it is.

A job that was there before, with the same key and pushed at the same time, is left out: a file that
is imported twice changes nothing, except for jobs without a key. A line whose key belonged to
another job before is refused, unless --allow-duplicates. Several jobs of the file may have one key.
Lines that cannot be imported are reported, and the others are imported. If a job is imported
without a part, such as a batch that is not in the file, that is reported as well.

To continue an interrupted import, use --resume with the token that the import has printed. It
imports nothing twice and leaves nothing out. The server remembers for a week how far the import is.

The exit status is also 1 if some lines were refused.`,
		Example: `  millrace import jobs.jsonl
  millrace import jobs.jsonl --resume 7f3c2a91
  millrace export | ssh other millrace import -
  millrace export --queue mails | millrace import --api http://other:7420`,
		Args: atMostOne("a file"),
	}
	im := &importer{}
	cmd.Flags().StringVar(&im.o.Token, "resume", "", "go on with the import of this token")
	cmd.Flags().BoolVar(&im.o.Duplicates, "allow-duplicates", false,
		"import every job, whatever jobs there are with its key")
	cmd.Flags().BoolVar(&im.check.ignore, "ignore-checksums", false, "import what was changed since it was exported")
	f := addAPI(cmd, p)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		in := cmd.InOrStdin()
		if path := fileOf(args); path != "" {
			file, err := os.Open(path) //nolint:gosec // the operator names the file
			if err != nil {
				return fail(err)
			}
			defer file.Close() //nolint:errcheck // only read from
			in = file
			if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
				im.size = uint64(info.Size()) //nolint:gosec // not negative
			}
		} else if w, ok := in.(io.Writer); ok && isTerminal(w) {
			return errors.New("name the file to import, or pipe it in")
		}
		im.stderr = cmd.ErrOrStderr()
		err := f.transfer(cmd, func(ctx context.Context, c *apiclient.Client, bar *progress) error {
			im.client, im.bar = c, bar
			return im.run(ctx, in)
		})
		if err == nil || im.out.Line > 0 {
			if perr := im.print(cmd, f.asJSON); perr != nil {
				return fail(perr)
			}
		}
		return err
	}
	return cmd
}

// importer sends lines.
type importer struct {
	client *apiclient.Client
	o      api.ImportOptions
	stderr io.Writer
	bar    *progress
	size   uint64 // of the input, if it is known
	read   uint64
	done   uint64           // lines that an earlier run has dealt with
	number uint64           // of the last line that was taken
	part   bytes.Buffer     // lines of the next request
	out    api.ImportResult // of all requests
	check  verifier
	told   int // how many lines were told that were imported in part
}

func (im *importer) run(ctx context.Context, in io.Reader) error {
	done, err := im.begin(ctx)
	if err != nil {
		return err
	}
	im.done = done
	for line, err := range exportLines(in) {
		if err != nil {
			return fail(fmt.Errorf("read line %d: %w", im.check.number+1, err))
		}
		im.read += uint64(len(line.text))
		good, err := im.check.add(line)
		if err == nil {
			err = im.take(ctx, good)
		}
		if err != nil {
			return im.goOn(ctx, err)
		}
	}
	if im.check.number == 0 {
		return fail(errors.New("the input is empty: an export has an end, at least"))
	}
	rest, err := im.check.rest()
	if err == nil {
		err = im.take(ctx, rest)
	}
	if err != nil {
		return im.goOn(ctx, err)
	}
	if err := im.send(ctx); err != nil {
		return err
	}
	if !im.check.ended {
		im.say("The input does not end as an export does: it may have been cut off.\n")
	}
	if n := len(im.out.Refused); n > 0 {
		return fail(fmt.Errorf("%s refused", plural(n, "line")))
	}
	return nil
}

// take adds lines to the next request, and sends it as soon as it is large enough.
func (im *importer) take(ctx context.Context, lines []exportLine) error {
	for _, line := range lines {
		if im.number++; im.number <= im.done {
			continue
		}
		if im.part.Len() == 0 {
			im.o.Line = im.number
		}
		im.part.Write(line.text)
		if im.number-im.o.Line+1 >= importLines || im.part.Len() >= importBytes {
			if err := im.send(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// goOn imports what is good of an export that is not, and says how to go on.
func (im *importer) goOn(ctx context.Context, why error) error {
	if _, server := errors.AsType[*apiclient.Unreachable](why); server || ctx.Err() != nil {
		return why
	}
	if err := im.send(ctx); err != nil {
		return err
	}
	return fmt.Errorf("%w\nTo go on with a good copy of the whole export: --resume %s", why, im.o.Token)
}

// begin makes up a token, or asks how far the import of the one given is.
func (im *importer) begin(ctx context.Context) (done uint64, err error) {
	if im.o.Token == "" {
		im.o.Token = strings.ToLower(rand.Text()[:16])
		im.out.Token = im.o.Token
		im.say("If this is interrupted, go on with --resume %s\n", im.o.Token)
		return 0, nil
	}
	im.out.Token = im.o.Token
	mark, err := im.client.ImportMark(ctx, im.o.Token)
	if err != nil {
		return 0, err
	}
	if mark.Line == 0 {
		return 0, fail(fmt.Errorf("the server knows no import %s: it has not begun, was more than a week ago, or was "+
			"with another server", im.o.Token))
	}
	im.say("Going on behind line %d\n", mark.Line)
	im.refused(mark.Refused) // whoever was interrupted may not have been told
	im.partly(mark.Partly)
	return mark.Line, nil
}

// send imports the lines that were taken. An attempt of which nothing is known is repeated, which does no harm.
func (im *importer) send(ctx context.Context) error {
	for try := 1; im.part.Len() > 0; try++ {
		r, err := im.client.Import(ctx, im.o, im.part.Bytes())
		if err == nil {
			im.add(&r)
			im.part.Reset()
			return nil
		}
		if try == importTries || !passing(err) || !sleep(ctx, time.Second<<(try-1)) {
			return fmt.Errorf("%w\nTo go on: --resume %s", apiError(err), im.o.Token)
		}
	}
	return nil
}

// add counts what a request has done.
func (im *importer) add(r *api.ImportResult) {
	im.out.Line = r.Line
	im.out.Imported += r.Imported
	im.out.Existed += r.Existed
	im.out.Repeated += r.Repeated
	im.out.Marks += r.Marks
	im.out.Queues += r.Queues
	im.out.Batches += r.Batches
	im.out.Cron += r.Cron
	im.out.Hooks += r.Hooks
	im.refused(r.Refused)
	im.partly(r.Partly)
	if im.size > 0 {
		im.bar.update("importing", min(im.read, im.size-1), im.size)
	} else {
		im.bar.update("importing", r.Line, 0)
	}
}

// refused tells of lines that were refused.
func (im *importer) refused(lines []api.ImportRefusal) {
	im.out.Refused = append(im.out.Refused, lines...)
	for _, r := range lines {
		im.bar.stop()
		im.say("line %d: %s\n", r.Line, printable(r.Problem))
	}
}

// partlyTold is how many lines that were imported in part are told one by one.
const partlyTold = 20

// partly tells of lines that were imported without a part of them.
func (im *importer) partly(lines []api.ImportRefusal) {
	for _, r := range lines {
		if im.told++; im.told <= partlyTold {
			im.bar.stop()
			im.say("line %d: imported without %s\n", r.Line, printable(r.Problem))
			im.out.Partly = append(im.out.Partly, r)
		}
	}
}

func (im *importer) say(format string, args ...any) {
	_, _ = fmt.Fprintf(im.stderr, format, args...) // nobody to tell
}

func (im *importer) print(cmd *cobra.Command, asJSON bool) error {
	if asJSON {
		if im.out.Refused == nil {
			im.out.Refused = []api.ImportRefusal{}
		}
		return printJSON(cmd.OutOrStdout(), im.out)
	}
	text := plural(im.out.Imported, "job") + " imported"
	var more []string
	for _, part := range []struct {
		n    int
		what string
	}{{im.out.Batches, "batch"}, {im.out.Cron, "cron entry"}, {
		im.out.Queues,
		"queue setting",
	}, {im.out.Hooks, "hook"}} {
		if part.n > 0 {
			more = append(more, ", "+plural(part.n, part.what))
		}
	}
	text += strings.Join(more, "")
	if im.told > 0 {
		text += fmt.Sprintf(", %s imported in part", plural(im.told, "line"))
	}
	if im.out.Existed > 0 {
		text += fmt.Sprintf(", %d left out because they were there before", im.out.Existed)
	}
	if n := len(im.out.Refused); n > 0 {
		text += fmt.Sprintf(", %s refused", plural(n, "line"))
	}
	_, err := fmt.Fprintln(cmd.OutOrStdout(), text)
	return err
}
