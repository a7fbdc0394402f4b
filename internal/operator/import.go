package operator

import (
	"context"
	"encoding/json"
	"regexp"
	"time"

	"millrace/internal/api"
	"millrace/internal/job"
)

// ImportBodyMax bounds the bytes of one request of an import or a migration.
const ImportBodyMax = 32 << 20

const (
	importSpace = "admin.import"
	// madeSpace, followed by the token, is where an import remembers what others of its lines name: which job or batch
	// has become of one. It is dropped with the end of the export.
	madeSpace     = "admin.imported:"
	importLineMax = 2000
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
		return api.ImportMark{}, api.NotFound("%q is no token of an import: write letters, digits, - and _, at most 64",
			token)
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

// BeginImport begins a request of an import or a migration, of which only a few are at work at a time.
func (s *Service) BeginImport() (done func(), err error) {
	select {
	case s.work.imports <- struct{}{}:
		return func() { <-s.work.imports }, nil
	default:
		return nil, api.ProblemTooMany.New("%d requests of imports are at work: try again in a second", importAtOnce)
	}
}
