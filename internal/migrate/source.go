package migrate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"millrace/internal/api"
	"millrace/internal/dialect"
)

// Source reads what a server of another kind holds. It is used by one goroutine.
type Source interface {
	// Protocol is the name of the protocol that it speaks.
	Protocol() string
	// Name tells it from others of its kind, so that ids of its jobs name them for ever.
	Name() string
	// Count returns how many jobs there are, for a look at the progress and for the end.
	Count(ctx context.Context) (uint64, error)
	// Read tells all of them. Jobs that are ready are told in their order, the next first.
	Read(ctx context.Context, to Sink) error
	Close() error
}

// TokenSource is a Source whose clients have tokens.
type TokenSource interface {
	Tokens(ctx context.Context) ([]api.TokenOptions, error)
}

// Sink takes what a Source reads.
type Sink interface {
	// Take takes a job, or a queue that is paused. It may be used again afterwards.
	Take(a *dialect.Arrival) error
	// Leave notes one that cannot be taken over, and why.
	Leave(a *dialect.Arrival, why string)
}

// opener opens one kind of source.
type opener struct {
	name string // of the kind
	open func(ctx context.Context, address string) (Source, error)
}

// openers are all kinds.
var openers = []opener{
	{"faktory", openFaktory},
	{"beanstalkd", openBeanstalkd},
	{"lmstfy", openLmstfy},
	{"masenko", openMasenko},
	{"tarantool", openTarantool},
	{"workq", openWorkq},
}

// Kinds are the kinds of servers that can be migrated from.
func Kinds() []string {
	names := make([]string, len(openers))
	for i, o := range openers {
		names[i] = o.name
	}
	slices.Sort(names)
	return names
}

// Open opens a source.
func Open(ctx context.Context, kind, address string) (Source, error) {
	for _, o := range openers {
		if o.name == kind {
			return o.open(ctx, address)
		}
	}
	return nil, fmt.Errorf("%q is none of %s", kind, strings.Join(Kinds(), ", "))
}
