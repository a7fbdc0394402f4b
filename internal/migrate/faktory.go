package migrate

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"millrace/internal/dialect"
	"millrace/internal/dialect/jsonscan"
	"millrace/internal/job"
)

// What a Faktory server keeps in Redis: a list for each queue, at whose head jobs are added, sorted sets
// of jobs by a time, and the set of queues that are paused.
const (
	faktoryQueues    = "queues"
	faktoryPaused    = "paused"
	faktoryWorking   = "working"
	faktoryScheduled = "scheduled"
	faktoryRetries   = "retries"
	faktoryDead      = "dead"
	faktoryDeadFor   = 180 * 24 * time.Hour // the time of a dead job is when it is forgotten
)

// faktory reads the Redis database of a Faktory server.
type faktory struct{ redis *redis.Client }

func openFaktory(ctx context.Context, address string) (Source, error) {
	if !strings.Contains(address, ":/") {
		return openFaktoryFile(ctx, address)
	}
	c, err := openRedis(ctx, address)
	if err != nil {
		return nil, err
	}
	return &faktory{c}, nil
}

func (f *faktory) Protocol() string { return "faktory" }

// Name is the same for all: ids of jobs are random, and a job has the same id whether it is read from Redis or fetched.
func (f *faktory) Name() string { return "faktory" }

func (f *faktory) Close() error { return f.redis.Close() }

// is reports whether a key is of a kind. A queue may be named as one of the server's own keys: whichever came first has
// it.
func (f *faktory) is(ctx context.Context, key, kind string) (bool, error) {
	is, err := f.redis.Type(ctx, key).Result()
	if err != nil {
		return false, fmt.Errorf("look at the key %q: %w", key, err)
	}
	return is == kind, nil
}

// members returns the members of a set, in order.
func (f *faktory) members(ctx context.Context, key string) ([]string, error) {
	if ok, err := f.is(ctx, key, "set"); err != nil || !ok {
		return nil, err
	}
	names, err := f.redis.SMembers(ctx, key).Result()
	if err != nil {
		return nil, fmt.Errorf("read the set %q: %w", key, err)
	}
	slices.Sort(names)
	return names, nil
}

// queues returns the queues that have jobs.
func (f *faktory) queues(ctx context.Context) (queues []string, err error) {
	names, err := f.members(ctx, faktoryQueues)
	for _, name := range names {
		ok, err := f.is(ctx, name, "list")
		if err != nil {
			return nil, err
		}
		if ok {
			queues = append(queues, name)
		}
	}
	return queues, err
}

// sets returns those of some sorted sets that are there.
func (f *faktory) sets(ctx context.Context, names ...string) (sets []string, err error) {
	for _, name := range names {
		ok, err := f.is(ctx, name, "zset")
		if err != nil {
			return nil, err
		}
		if ok {
			sets = append(sets, name)
		}
	}
	return sets, nil
}

func (f *faktory) Count(ctx context.Context) (uint64, error) {
	queues, err := f.queues(ctx)
	if err != nil {
		return 0, err
	}
	sets, err := f.sets(ctx, faktoryWorking, faktoryScheduled, faktoryRetries, faktoryDead)
	if err != nil {
		return 0, err
	}
	total := int64(0)
	for _, name := range queues {
		n, err := f.redis.LLen(ctx, name).Result()
		if err != nil {
			return 0, fmt.Errorf("count the jobs of %q: %w", name, err)
		}
		total += n
	}
	for _, set := range sets {
		n, err := f.redis.ZCard(ctx, set).Result()
		if err != nil {
			return 0, fmt.Errorf("count the jobs of %q: %w", set, err)
		}
		total += n
	}
	return uint64(max(total, 0)), nil
}

// Read begins with what is paused, so that nobody fetches from it here, and with the jobs that workers hold: they were
// before all others.
func (f *faktory) Read(ctx context.Context, to Sink) error {
	paused, err := f.members(ctx, faktoryPaused)
	if err != nil {
		return err
	}
	for _, queue := range paused {
		if err := to.Take(&dialect.Arrival{
			ID: "paused " + queue, Queue: queue,
			State: dialect.StatePaused,
		}); err != nil {
			return err
		}
	}
	r := faktoryReader{to: to}
	if err := f.readSet(ctx, &r, faktoryWorking); err != nil {
		return err
	}
	queues, err := f.queues(ctx)
	if err != nil {
		return err
	}
	for _, queue := range queues {
		err := eachFromTail(ctx, f.redis, queue, &r.pages, func(text string) error {
			return r.job(text, dialect.Arrival{Queue: queue, State: job.Ready.String()})
		})
		if err != nil {
			return err
		}
	}
	for _, set := range []string{faktoryScheduled, faktoryRetries, faktoryDead} {
		if err := f.readSet(ctx, &r, set); err != nil {
			return err
		}
	}
	return nil
}

// readSet reads a sorted set, if it is there.
func (f *faktory) readSet(ctx context.Context, r *faktoryReader, name string) error {
	if ok, err := f.is(ctx, name, "zset"); err != nil || !ok {
		return err
	}
	return eachScored(ctx, f.redis, name, &r.pages,
		func(text string, score float64) error { return r.scored(name, text, score) })
}

// scored reads a member of one of the sorted sets.
func (r *faktoryReader) scored(set, text string, score float64) error {
	at := scored(score)
	switch set {
	case faktoryWorking:
		return r.reservation(text)
	case faktoryScheduled:
		return r.job(text, dialect.Arrival{State: job.Scheduled.String(), RunAt: at})
	case faktoryRetries:
		return r.job(text, dialect.Arrival{State: job.Retrying.String(), RunAt: at})
	default:
		return r.job(text, dialect.Arrival{State: job.Dead.String(), Since: at.Add(-faktoryDeadFor)})
	}
}

// scored is the instant that a score tells, in seconds.
func scored(score float64) job.Time {
	us := math.Ceil(score * 1e6)
	if !(us < math.MaxInt64) {
		return job.Never
	}
	return job.Time(max(us, 1))
}

// faktoryReader makes arrivals of the texts of jobs.
type faktoryReader struct {
	to    Sink
	pages pager
}

// reservation reads a job that a worker holds.
func (r *faktoryReader) reservation(text string) error {
	var held struct {
		Job json.RawMessage `json:"job"`
	}
	a := dialect.Arrival{State: job.Leased.String()}
	if err := json.Unmarshal([]byte(text), &held); err != nil || held.Job == nil {
		r.to.Leave(&a, "the reservation cannot be read: "+clipped(text))
		return nil //nolint:nilerr // the others are read
	}
	return r.job(string(held.Job), a)
}

// job reads the id and the queue of a job. The rest of the text is for the server.
func (r *faktoryReader) job(text string, a dialect.Arrival) error {
	jid, created, queue := "", "", ""
	members := jsonscan.ReadObject([]byte(text))
	for key, value, ok := members.Next(); ok; key, value, ok = members.Next() {
		switch string(key) {
		case "jid":
			jid = unquoted(value)
		case "created_at":
			created = unquoted(value)
		case "queue":
			queue = unquoted(value)
		}
	}
	if a.Queue == "" {
		a.Queue = queue
	}
	// A client may use an id again: the time tells such jobs apart.
	a.ID, a.Text = jid+" "+created, json.RawMessage(text)
	if members.Err() != nil || jid == "" {
		r.to.Leave(&a, "it is no job: "+clipped(text))
		return nil //nolint:nilerr // the others are read
	}
	return r.to.Take(&a)
}

// unquoted decodes a JSON string; anything else is empty.
func unquoted(value []byte) string {
	text, ok := jsonscan.Unquote(value, nil)
	if !ok {
		return ""
	}
	return string(text)
}

// clipped shows the beginning of a text.
func clipped(text string) string {
	const shown = 60
	if len(text) > shown {
		return fmt.Sprintf("%q...", text[:shown])
	}
	return fmt.Sprintf("%q", text)
}
