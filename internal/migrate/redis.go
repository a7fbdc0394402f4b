package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

const (
	pageMax   = 2000    // elements of one answer
	pageBytes = 4 << 20 // about as many bytes
	redials   = 3       // how often a list that is shortened while it is read is begun again
)

// quiet drops what the client library logs: each failure comes back as an error, too.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// openRedis connects to a Redis server: redis://, rediss://, unix:// or, as others write that, redis+unix://.
func openRedis(ctx context.Context, address string) (*redis.Client, error) {
	redis.SetLogger(quiet{})
	if path, ok := strings.CutPrefix(address, "redis+unix:"); ok {
		address = "unix:" + path
	}
	o, err := redis.ParseURL(address)
	if err != nil {
		return nil, fmt.Errorf("%q is not the address of a Redis server: write redis://HOST:PORT/DB or "+
			"unix:///PATH?db=N: %w", address, err)
	}
	o.Protocol = 2 // all that is needed, and older servers know nothing else
	o.DisableIdentity = true
	c := redis.NewClient(o)
	if err := c.Ping(ctx).Err(); err != nil {
		return nil, errors.Join(fmt.Errorf("no answer from Redis: %w", err), c.Close())
	}
	return c, nil
}

// pager chooses how many elements to ask for, so that an answer has about pageBytes.
type pager struct{ size int64 }

func (p *pager) next() int64 {
	if p.size == 0 {
		p.size = 32 // until it is known how large they are
	}
	return p.size
}

// saw notes an answer of some elements, and how many bytes they have together.
func (p *pager) saw(elements, bytes int) {
	if elements > 0 {
		p.size = min(max(int64(pageBytes/(bytes/elements+1)), 1), pageMax, 4*p.size)
	}
}

// length adds up the lengths of texts.
func length(texts []string) (n int) {
	for _, t := range texts {
		n += len(t)
	}
	return n
}

// eachFromTail reads a list from its tail, where elements leave it, to its head. If it is shortened meanwhile, so that
// elements would be missed, it begins again.
func eachFromTail(ctx context.Context, c *redis.Client, key string, pages *pager, use func(string) error) error {
	for try := 0; ; try++ {
		moved, err := tailPass(ctx, c, key, pages, try < redials, use)
		if err != nil || !moved {
			return err
		}
	}
}

// tailPass reads a list once. With check it reports whether the list has moved on meanwhile.
func tailPass(
	ctx context.Context, c *redis.Client, key string, pages *pager, check bool, use func(string) error,
) (moved bool, err error) {
	last := ""
	for read := int64(0); ; {
		n := pages.next()
		overlap := min(read, 1) // the last one that was read comes once more
		page, err := c.LRange(ctx, key, -(read + n), -(read+1)+overlap).Result()
		if err != nil {
			return false, fmt.Errorf("read the list %q: %w", key, err)
		}
		slices.Reverse(page)
		if overlap > 0 {
			if len(page) == 0 || page[0] != last {
				if check {
					return true, nil
				}
			}
			page = page[min(1, len(page)):]
		}
		if len(page) == 0 {
			return false, nil
		}
		pages.saw(len(page), length(page))
		for _, element := range page {
			if err := use(element); err != nil {
				return false, err
			}
		}
		read += int64(len(page))
		last = page[len(page)-1]
	}
}

// eachScored reads a sorted set in the order of its scores. What is removed and added meanwhile does not keep it from
// reading the others.
func eachScored(
	ctx context.Context, c *redis.Client, key string, pages *pager, use func(member string, score float64) error,
) error {
	from, ties := "-inf", int64(0) // of the last score, those that have been read
	for {
		page, err := c.ZRangeArgsWithScores(ctx, redis.ZRangeArgs{
			Key: key, ByScore: true, Start: from, Stop: "+inf", Offset: ties, Count: pages.next(),
		}).Result()
		if err != nil {
			return fmt.Errorf("read the sorted set %q: %w", key, err)
		}
		if len(page) == 0 {
			return nil
		}
		members := make([]string, len(page))
		for i := range page {
			members[i], _ = page[i].Member.(string)
			if err := use(members[i], page[i].Score); err != nil {
				return err
			}
		}
		pages.saw(len(members), length(members))
		last := page[len(page)-1].Score
		same := int64(0)
		for i := len(page) - 1; i >= 0 && page[i].Score == last; i-- {
			same++
		}
		if score := strconv.FormatFloat(last, 'g', 17, 64); score == from {
			ties += same
		} else {
			from, ties = score, same
		}
	}
}
