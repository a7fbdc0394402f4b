package admin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"regexp"
	"strconv"
	"time"

	"millrace/internal/api"
	"millrace/internal/job"
)

const (
	importSpace = "admin.import"
	// madeSpace, followed by the token, is where an import remembers what others of its lines name: which job or batch
	// has become of one. It is dropped with the end of the export.
	madeSpace     = "admin.imported:"
	importLineMax = 2000
	importBodyMax = 32 << 20
	importKeptFor = 7 * 24 * time.Hour
	importKeptMax = 1000
	problemMax    = 500 // bytes of what is told about a line
	importAtOnce  = 4
	importStep    = 100 // jobs of one unit: it holds up everybody else
)

var importToken = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// Import returns how far an import is; line 0 for one that is not known.
func (s *Service) Import(token string) (api.ImportMark, error) {
	if !importToken.MatchString(token) {
		return api.ImportMark{}, api.NotFound("%q is no token of an import: write letters, digits, - and _, at most 64", token)
	}
	text, ok, err := s.engine.Value(importSpace, token)
	if err != nil || !ok {
		return api.ImportMark{}, api.Refusal(err)
	}
	var m api.ImportMark
	if err := json.Unmarshal(text, &m); err != nil {
		return api.ImportMark{}, api.ProblemConflict.New("how far the import is cannot be read: choose another token")
	}
	return m, nil
}

// forgetImports forgets those that nobody goes on with any more.
func (s *Service) forgetImports(ctx context.Context) error {
	values, err := s.engine.Values(importSpace, "", 0)
	if err != nil {
		return api.Refusal(err)
	}
	if len(values) > importKeptMax {
		return api.ProblemTooMany.New("%d imports are remembered, each for a week", len(values))
	}
	for _, v := range values {
		var m api.ImportMark
		if err := json.Unmarshal(v.Value, &m); err != nil || time.Since(m.At) > importKeptFor {
			if err := s.dropMade(ctx, v.Name); err != nil {
				return err
			}
			if _, err := s.do(ctx, &job.DropValue{Space: importSpace, Name: v.Name}); err != nil {
				return err
			}
		}
	}
	return nil
}

// dropMade forgets what has become of the lines of an import, a part of it at a time.
func (s *Service) dropMade(ctx context.Context, token string) error {
	for {
		values, err := s.engine.Values(madeSpace+token, "", dropStep)
		if err != nil || len(values) == 0 {
			return api.Refusal(err)
		}
		cmds := make([]job.Command, len(values))
		for i := range values {
			cmds[i] = &job.DropValue{Space: madeSpace + token, Name: values[i].Name}
		}
		for _, r := range s.engine.NewCallerAt(s.opts.Door).Do(ctx, cmds...) {
			if r.Err != nil {
				return api.Refusal(r.Err)
			}
		}
	}
}

func (c *call) getImport() error { return c.Result(c.Import(c.Name("import"))) }

// lines reads the lines of a request, and has use make something of them.
func (c *call) lines(use func(lines []byte) error) error {
	select {
	case c.work.imports <- struct{}{}:
		defer func() { <-c.work.imports }()
	default:
		return api.ProblemTooMany.New("%d requests of imports are at work: try again in a second", importAtOnce)
	}
	c.AllowTime(api.LargeTimeout + api.ReplyTimeout)
	body, err := io.ReadAll(c.R.Body)
	if err != nil {
		return api.CutShort(err)
	}
	if kind, _, err := mime.ParseMediaType(c.R.Header.Get("Content-Type")); err != nil || kind != mediaLines {
		return api.ProblemMedia.New("send Content-Type: %s", mediaLines)
	}
	return use(body)
}

func (c *call) importJobs() (err error) {
	o := api.ImportOptions{Token: c.Name("import"), Line: 1}
	if text := c.query("line"); text != "" {
		if o.Line, err = strconv.ParseUint(text, 10, 64); err != nil {
			return api.Invalid("line: %q is no number", text)
		}
	}
	if o.Duplicates, err = c.flag("duplicates"); err != nil {
		return err
	}
	return c.lines(func(lines []byte) error { return c.Result(c.ImportLines(c.R.Context(), o, lines)) })
}

// errClientGone tells that nobody reads an answer any more.
var errClientGone = errors.New("the client has gone")

func isClientGone(err error) bool { return errors.Is(err, errClientGone) }
