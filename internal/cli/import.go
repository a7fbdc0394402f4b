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

	"millrace/internal/admin"
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
		Long: `Read the JSON lines of "millrace export" from FILE or standard input, and push their jobs: each is in the
state that it was in, with its attempts, failures, times and result, except those that were running, which are ready.
It gets a new id, and is in no batch.

A job that was there before, with the same key and pushed at the same time, is left out: a file that is imported twice
changes nothing, except for jobs without a key. A line whose key belonged to another job before is refused, unless
--allow-duplicates. Several jobs of the file may have one key. Lines that cannot be imported are told, and the others
are imported: those of jobs that wait for other jobs are such lines.

An import that was interrupted goes on with --resume and the token that it has printed, imports nothing twice and leaves
nothing out: the server remembers for a week how far it is.

Exit status 1 also tells that some lines were refused.`,
		Example: `  millrace import jobs.jsonl
  millrace import jobs.jsonl --resume 7f3c2a91
  millrace export --queue mails | millrace import --api http://other:7420`,
		Args: atMostOne("a file"),
	}
	im := &importer{}
	cmd.Flags().StringVar(&im.o.Token, "resume", "", "go on with the import of this token")
	cmd.Flags().BoolVar(&im.o.Duplicates, "allow-duplicates", false, "import every job, whatever jobs there are with its key")
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
	o      admin.ImportOptions
	stderr io.Writer
	bar    *progress
	size   uint64 // of the input, if it is known
	read   uint64
	out    admin.ImportResult // of all requests
	ended  bool               // the end mark of the export was there
}

func (im *importer) run(ctx context.Context, in io.Reader) error {
	done, err := im.begin(ctx)
	if err != nil {
		return err
	}
	var part bytes.Buffer
	var number, from uint64
	for line, err := range exportLines(in) {
		if err != nil {
			return fail(fmt.Errorf("read line %d: %w", number+1, err))
		}
		number++
		im.read += uint64(len(line.text))
		if line.mark != nil {
			im.ended = line.mark.Mark == admin.MarkEnd
		}
		if number <= done {
			continue
		}
		if part.Len() == 0 {
			from = number
		}
		part.Write(line.text)
		if number-from+1 >= importLines || part.Len() >= importBytes {
			if err := im.send(ctx, from, &part); err != nil {
				return err
			}
		}
	}
	if part.Len() > 0 {
		if err := im.send(ctx, from, &part); err != nil {
			return err
		}
	}
	if !im.ended {
		im.say("The input does not end as an export does: it may have been cut off.\n")
	}
	if n := len(im.out.Refused); n > 0 {
		return fail(fmt.Errorf("%s refused", plural(n, "line")))
	}
	return nil
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
		return 0, fail(fmt.Errorf("the server knows no import %s: it has not begun, was more than a week ago, or was with another server", im.o.Token))
	}
	im.say("Going on behind line %d\n", mark.Line)
	im.refused(mark.Refused) // whoever was interrupted may not have been told
	return mark.Line, nil
}

// send imports some lines, and empties their buffer. An attempt of which nothing is known is repeated, which does no
// harm.
func (im *importer) send(ctx context.Context, from uint64, lines *bytes.Buffer) error {
	im.o.Line = from
	for try := 1; ; try++ {
		r, err := im.client.Import(ctx, im.o, lines.Bytes())
		if err == nil {
			im.add(&r)
			lines.Reset()
			return nil
		}
		if try == importTries || !passing(err) || !sleep(ctx, time.Second<<(try-1)) {
			return fmt.Errorf("%w\nTo go on: --resume %s", apiError(err), im.o.Token)
		}
	}
}

// add counts what a request has done.
func (im *importer) add(r *admin.ImportResult) {
	im.out.Line = r.Line
	im.out.Imported += r.Imported
	im.out.Existed += r.Existed
	im.out.Repeated += r.Repeated
	im.out.Marks += r.Marks
	im.refused(r.Refused)
	if im.size > 0 {
		im.bar.update("importing", min(im.read, im.size-1), im.size)
	} else {
		im.bar.update("importing", r.Line, 0)
	}
}

// refused tells of lines that were refused.
func (im *importer) refused(lines []admin.ImportRefusal) {
	im.out.Refused = append(im.out.Refused, lines...)
	for _, r := range lines {
		im.bar.stop()
		im.say("line %d: %s\n", r.Line, printable(r.Problem))
	}
}

func (im *importer) say(format string, args ...any) {
	_, _ = fmt.Fprintf(im.stderr, format, args...) // nobody to tell
}

func (im *importer) print(cmd *cobra.Command, asJSON bool) error {
	if asJSON {
		if im.out.Refused == nil {
			im.out.Refused = []admin.ImportRefusal{}
		}
		return printJSON(cmd.OutOrStdout(), im.out)
	}
	text := plural(im.out.Imported, "job") + " imported"
	if im.out.Existed > 0 {
		text += fmt.Sprintf(", %d left out because they were there before", im.out.Existed)
	}
	if n := len(im.out.Refused); n > 0 {
		text += fmt.Sprintf(", %s refused", plural(n, "line"))
	}
	_, err := fmt.Fprintln(cmd.OutOrStdout(), text)
	return err
}
