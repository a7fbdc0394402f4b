package lmstfy

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"millrace/internal/dialect"
	"millrace/internal/job"
)

var _ dialect.Adopter = (*Dialect)(nil)

// payloadText is what other servers keep of a job that was published with attributes.
type payloadText struct {
	Body       []byte            `json:"body"`
	Attributes map[string]string `json:"attributes"`
}

// Adopt takes over a job of another server. One that was published with attributes is told by Text, any other by its
// Body.
func (d *Dialect) Adopt(a *dialect.Arrival) (cmd job.Command, lost string, err error) {
	pool := d.pools[a.Pool]
	switch {
	case pool == nil:
		return nil, "", fmt.Errorf("there is no pool %q here: name it in lmstfy.pools", a.Pool)
	case !validName(a.Namespace, false) || len(a.Namespace) > nameMax:
		return nil, "", errors.New(textNamespace)
	case !validName(a.Queue, false) || len(a.Queue) > nameMax:
		return nil, "", fmt.Errorf("%q is no name of a queue", a.Queue)
	case len(a.ID) > idMax:
		return nil, "", errors.New("its id is too long")
	}
	past, err := a.Past()
	if err != nil {
		return nil, "", err
	}
	if ms, ok := publishedAt(a.ID); ok && past.Created == 0 {
		past.Created = job.Time(ms * 1000) //nolint:gosec // 48 bits
	}
	p := &job.Push{Past: past}
	s := &p.Spec
	s.Namespace, s.Queue, s.Key = pool.prefix+a.Namespace, a.Queue, a.ID
	s.Body, s.BodyKind = a.Body, job.BodyBytes
	if a.Text != nil {
		var payload payloadText
		if err := json.Unmarshal(a.Text, &payload); err != nil {
			return nil, "", fmt.Errorf("its payload cannot be read: %w", err)
		}
		s.Body, s.Extra = payload.Body, attributesOf(payload.Attributes)
	}
	if s.Body == nil {
		s.Body = []byte{} // an empty one
	}
	if len(s.Body) > d.opts.MaxBody {
		return nil, "", fmt.Errorf("its body has %d bytes, more than lmstfy.max_body allows", len(s.Body))
	}
	s.RunAt = a.RunAt
	fixed(s, max(a.Tries, 1))
	s.Policy.ExpireAt = a.ExpireAt
	if past.State == job.Dead {
		past.Attempts = s.Policy.MaxAttempts
	}
	return p, "", nil
}

// attributesOf renders attributes as those of a request.
func attributesOf(attributes map[string]string) []byte {
	var list []attribute
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		list = append(list, attribute{strings.ToLower(name), attributes[name]})
	}
	return appendObject(nil, list)
}
