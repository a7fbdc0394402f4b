package cli

import (
	"bufio"
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
		Long: `Read the JSON lines of "millrace export" from FILE or standard input, and push their jobs: those that waited wait
again, those that were in work are ready, buried, dead and done ones are that again. Each job gets a new id and begins
anew with its tries. A job whose key another job of its namespace has is left out, unless --allow-duplicates. Lines that
cannot be imported are told, and the others are imported.

An import that was interrupted goes on with --resume and the token that it has printed, and imports nothing twice: the
server remembers for a week how far it is.

Exit status 1 also tells that some lines were refused.`,
		Example: `  millrace import jobs.jsonl
  millrace import jobs.jsonl --resume 7f3c2a91
  millrace export --queue mails | millrace import --api http://other:7420`,
		Args: atMostOne("a file"),
	}
	im := &importer{}
	cmd.Flags().StringVar(&im.o.Token, "resume", "", "go on with the import of this token")
	cmd.Flags().BoolVar(&im.o.Duplicates, "allow-duplicates", false, "import jobs whose key another job has")
	f := addAPI(cmd, p)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		in := cmd.InOrStdin()
		if len(args) > 0 && args[0] != "-" {
			file, err := os.Open(args[0])
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
		c, err := f.client()
		if err != nil {
			return err
		}
		defer c.Close()
		ctx, stop := p.interruptible(cmd.Context())
		defer stop()
		im.client, im.stderr, im.bar = c, cmd.ErrOrStderr(), newProgress(cmd.ErrOrStderr())
		err = im.run(ctx, in)
		im.bar.stop()
		if err == nil || im.out.Line > 0 {
			if perr := im.print(cmd, f.asJSON); perr != nil {
				return fail(perr)
			}
		}
		return apiError(err)
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
	var done uint64
	if im.o.Token == "" {
		im.o.Token = strings.ToLower(rand.Text()[:16])
		im.say("If this is interrupted, go on with --resume %s\n", im.o.Token)
	} else {
		mark, err := im.client.ImportMark(ctx, im.o.Token)
		if err != nil {
			return err
		}
		if mark.Line == 0 {
			return fail(fmt.Errorf("the server knows no import %s: it has not begun, was more than a week ago, or was with another server", im.o.Token))
		}
		done = mark.Line
		im.say("Going on behind line %d\n", done)
	}
	im.out.Token = im.o.Token
	lines := bufio.NewReaderSize(in, 1<<20)
	var part bytes.Buffer
	var line, from uint64
	for {
		text, err := lines.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return fail(fmt.Errorf("read line %d: %w", line+1, err))
		}
		last := err != nil
		if len(text) > 0 {
			line++
			im.read += uint64(len(text))
			if m, ok := markOf(text); ok {
				im.ended = m.Mark == admin.MarkEnd
			}
			if line > done {
				if part.Len() == 0 {
					from = line
				}
				part.Write(text)
			}
		}
		if part.Len() > 0 && (last || line-from+1 >= importLines || part.Len() >= importBytes) {
			if err := im.send(ctx, from, part.Bytes()); err != nil {
				return fmt.Errorf("%w\nTo go on: --resume %s", apiError(err), im.o.Token)
			}
			part.Reset()
		}
		if last {
			break
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

// send imports some lines. An attempt of which nothing is known is repeated, which does no harm.
func (im *importer) send(ctx context.Context, from uint64, lines []byte) error {
	im.o.Line = from
	for try := 1; ; try++ {
		r, err := im.client.Import(ctx, im.o, lines)
		if err == nil {
			im.add(&r)
			return nil
		}
		if try == importTries || !passing(err) || !sleep(ctx, time.Second<<(try-1)) {
			return err
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
	im.out.Refused = append(im.out.Refused, r.Refused...)
	for _, refused := range r.Refused {
		im.bar.stop()
		im.say("line %d: %s\n", refused.Line, printable(refused.Problem))
	}
	if im.size > 0 {
		im.bar.update("importing", min(im.read, im.size-1), im.size)
	} else {
		im.bar.update("importing", r.Line, 0)
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
		text += fmt.Sprintf(", %d left out because their keys are taken", im.out.Existed)
	}
	if n := len(im.out.Refused); n > 0 {
		text += fmt.Sprintf(", %s refused", plural(n, "line"))
	}
	_, err := fmt.Fprintln(cmd.OutOrStdout(), text)
	return err
}
