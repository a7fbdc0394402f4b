package migrate

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"millrace/internal/api"
	"millrace/internal/dialect"
	"millrace/internal/job"
)

// What an LMSTFY server keeps in the Redis of a pool: which namespaces and queues there are, a list of ids for each
// queue and for its dead letters, a sorted set of the ids that are delayed or in a worker's hands, and every job under
// its id, with the time it has left to live. What stands in a list but has no job under its id was deleted or has
// expired.
const (
	lmstfyMeta   = "m/ns"
	lmstfyTimer  = "timer_set"
	lmstfyTokens = "tk/"
	lmstfyPool   = "default"
)

// lmstfy reads the Redis of a pool.
type lmstfy struct {
	redis  *redis.Client
	pool   string
	ghosts uint64 // ids without a job that were met
}

// openLmstfy opens the Redis of the pool that the address names by pool=.
func openLmstfy(ctx context.Context, address string) (Source, error) {
	pool := lmstfyPool
	if u, err := url.Parse(address); err == nil {
		q := u.Query()
		pool = cmp.Or(q.Get("pool"), pool)
		q.Del("pool")
		u.RawQuery = q.Encode()
		address = u.String()
	}
	c, err := openRedis(ctx, address)
	if err != nil {
		return nil, err
	}
	return &lmstfy{redis: c, pool: pool}, nil
}

func (l *lmstfy) Protocol() string { return "lmstfy" }

// Name has the pool alone: ids of jobs are ULIDs.
func (l *lmstfy) Name() string { return "lmstfy:" + l.pool }

func (l *lmstfy) Close() error { return l.redis.Close() }

// place of a queue.
type lmstfyQueue struct{ namespace, name string }

func (q lmstfyQueue) key(prefix string) string { return prefix + "/" + q.namespace + "/" + q.name }

// queues returns all queues, in order.
func (l *lmstfy) queues(ctx context.Context) (queues []lmstfyQueue, err error) {
	spaces, err := l.redis.HKeys(ctx, lmstfyMeta).Result()
	if err != nil {
		return nil, fmt.Errorf("read the namespaces: %w", err)
	}
	slices.Sort(spaces)
	for _, space := range spaces {
		names, err := l.redis.HKeys(ctx, lmstfyMeta+"/"+space).Result()
		if err != nil {
			return nil, fmt.Errorf("read the queues of %q: %w", space, err)
		}
		slices.Sort(names)
		for _, name := range names {
			queues = append(queues, lmstfyQueue{space, name})
		}
	}
	return queues, nil
}

// Count leaves out the ids without a job that reading has met.
func (l *lmstfy) Count(ctx context.Context) (uint64, error) {
	queues, err := l.queues(ctx)
	if err != nil {
		return 0, err
	}
	total, err := l.redis.ZCard(ctx, lmstfyTimer).Uint64()
	if err != nil {
		return 0, fmt.Errorf("count the delayed jobs: %w", err)
	}
	for _, q := range queues {
		for _, prefix := range []string{"q", "d"} {
			n, err := l.redis.LLen(ctx, q.key(prefix)).Uint64()
			if err != nil {
				return 0, fmt.Errorf("count the jobs of %q: %w", q.key(prefix), err)
			}
			total += n
		}
	}
	return total - min(total, l.ghosts), nil
}

func (l *lmstfy) Read(ctx context.Context, to Sink) error {
	l.ghosts = 0
	queues, err := l.queues(ctx)
	if err != nil {
		return err
	}
	r := lmstfyReader{l: l, ctx: ctx, to: to}
	for _, q := range queues {
		for _, list := range []struct {
			prefix string
			state  job.State
		}{{"q", job.Ready}, {"d", job.Dead}} {
			err := eachFromTail(ctx, l.redis, q.key(list.prefix), &r.pages, func(text string) error {
				tries, id, ok := packedJob(text)
				a := &dialect.Arrival{
					ID: id, Pool: l.pool, Namespace: q.namespace, Queue: q.name,
					State: list.state.String(), Tries: tries,
				}
				if !ok {
					to.Leave(a, "it is no job: "+clipped(text))
					return nil
				}
				return r.add(a)
			})
			if err != nil {
				return err
			}
		}
	}
	err = eachScored(ctx, l.redis, lmstfyTimer, &r.pages, func(text string, score float64) error {
		a, ok := packedTimer(text)
		if !ok {
			to.Leave(a, "it is no job: "+clipped(text))
			return nil
		}
		a.Pool, a.RunAt = l.pool, scored(score)
		if a.Tries == 0 { // a worker has its last try
			a.State, a.RunAt = job.Dead.String(), 0
		}
		return r.add(a)
	})
	if err != nil {
		return err
	}
	return r.flush()
}

// packedJob reads an element of a list: tries, length of the id, id.
func packedJob(text string) (tries uint32, id string, ok bool) {
	b := []byte(text)
	if len(b) < 4 {
		return 0, "", false
	}
	id = text[4:]
	return uint32(binary.LittleEndian.Uint16(b)), id, int(binary.LittleEndian.Uint16(b[2:])) == len(id)
}

// packedTimer reads a member of the sorted set: namespace, queue, tries and id, with the lengths of the names.
func packedTimer(text string) (*dialect.Arrival, bool) {
	a := &dialect.Arrival{State: job.Scheduled.String()}
	for _, name := range []*string{&a.Namespace, &a.Queue} {
		if len(text) < 2 {
			return a, false
		}
		n := int(binary.LittleEndian.Uint16([]byte(text[:2])))
		if text = text[2:]; len(text) < n {
			return a, false
		}
		*name, text = text[:n], text[n:]
	}
	var ok bool
	a.Tries, a.ID, ok = packedJob(text)
	return a, ok
}

// lmstfyReader looks up jobs, some at a time.
type lmstfyReader struct {
	l     *lmstfy
	ctx   context.Context //nolint:containedctx // of one Read
	to    Sink
	pages pager
	some  []*dialect.Arrival
}

// jobsAtOnce is how many jobs are looked up together.
const jobsAtOnce = 200

func (r *lmstfyReader) add(a *dialect.Arrival) error {
	r.some = append(r.some, a)
	if len(r.some) < jobsAtOnce {
		return nil
	}
	return r.flush()
}

// flush looks up the jobs of the ids that have been read, and tells them.
func (r *lmstfyReader) flush() error {
	bodies, lives := make([]*redis.StringCmd, len(r.some)), make([]*redis.DurationCmd, len(r.some))
	_, err := r.l.redis.Pipelined(r.ctx, func(p redis.Pipeliner) error {
		for i, a := range r.some {
			key := "j/" + a.Namespace + "/" + a.Queue + "/" + a.ID
			bodies[i], lives[i] = p.Get(r.ctx, key), p.PTTL(r.ctx, key)
		}
		return nil
	})
	if err != nil && err != redis.Nil { //nolint:errorlint // of one that is not there
		return fmt.Errorf("read jobs: %w", err)
	}
	for i, a := range r.some {
		body, err := bodies[i].Bytes()
		if err != nil {
			r.l.ghosts++
			continue
		}
		if left := lives[i].Val(); left > 0 {
			a.ExpireAt = job.TimeOf(time.Now().Add(left))
		}
		if a.Body = body; len(a.ID) > dialect.ULIDLen && json.Valid(body) { // published with attributes
			a.Body, a.Text = nil, body
		}
		if err := r.to.Take(a); err != nil {
			return err
		}
	}
	r.some = r.some[:0]
	return nil
}

// Tokens returns the tokens of all pools that this Redis has.
func (l *lmstfy) Tokens(ctx context.Context) (tokens []api.TokenOptions, err error) {
	keys := l.redis.Scan(ctx, 0, lmstfyTokens+"*", pageMax).Iterator()
	for keys.Next(ctx) {
		pool, namespace, _ := strings.Cut(strings.TrimPrefix(keys.Val(), lmstfyTokens), "/")
		list, err := l.redis.HGetAll(ctx, keys.Val()).Result()
		if err != nil {
			return nil, fmt.Errorf("read tokens: %w", err)
		}
		for _, token := range slices.Sorted(maps.Keys(list)) {
			tokens = append(tokens, api.TokenOptions{
				Namespace: namespace, Pool: pool, Token: token, Description: cmp.Or(list[token], "migrated"),
			})
		}
	}
	return tokens, keys.Err()
}
