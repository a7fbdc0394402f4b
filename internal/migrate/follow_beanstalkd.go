package migrate

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"millrace/internal/dialect"
)

const (
	fetchMax  = 200     // jobs that are passed on together
	fetchSize = 4 << 20 // about as many bytes
)

// beanstalkdFollower reserves from all tubes.
type beanstalkdFollower struct {
	*beanstalkd
	watched map[string]bool
}

func followBeanstalkd(ctx context.Context, address string) (Follower, error) {
	s, err := openBeanstalkd(ctx, address)
	if err != nil {
		return nil, err
	}
	b, ok := s.(*beanstalkd)
	if !ok {
		return nil, errors.New("only a running server can be followed: write tcp://HOST:PORT")
	}
	return &beanstalkdFollower{b, map[string]bool{"default": true}}, nil
}

// watch watches the tubes that there are.
func (f *beanstalkdFollower) watch() error {
	tubes, err := f.tubes()
	if err != nil {
		return err
	}
	for _, tube := range tubes {
		if f.watched[tube] {
			continue
		}
		if err := f.askEach("watch "+tube+"\r\n", 1); err != nil {
			return err
		}
		f.watched[tube] = true
	}
	return nil
}

// Fetch reserves what is there, or waits a second for one job.
func (f *beanstalkdFollower) Fetch(ctx context.Context) (jobs []*dialect.Arrival, err error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err := f.watch(); err != nil {
		return nil, err
	}
	wait := 1
	for size := 0; len(jobs) < fetchMax && size < fetchSize; wait = 0 {
		if err := f.ask(fmt.Sprintf("reserve-with-timeout %d\r\n", wait)); err != nil {
			return nil, err
		}
		id, body, err := f.reserved()
		if err != nil || id == "" {
			return jobs, err
		}
		stats, found, err := f.facts("stats-job " + id)
		if err != nil {
			return nil, err
		}
		if !found {
			continue // its time was up, and somebody else has deleted it
		}
		a := arrivalOf(stats)
		a.Body = body
		a.Attempts-- // ours does not count
		jobs = append(jobs, a)
		size += len(body)
	}
	return jobs, nil
}

// reserved reads the answer to a reserve; no id if there is no job.
func (f *beanstalkdFollower) reserved() (id string, body []byte, err error) {
	line, err := f.line()
	if err != nil {
		return "", nil, err
	}
	words := strings.Fields(line)
	if len(words) == 1 && (words[0] == "TIMED_OUT" || words[0] == "DEADLINE_SOON") {
		return "", nil, nil
	}
	if len(words) != 3 || words[0] != "RESERVED" {
		return "", nil, f.unexpected(line)
	}
	body, err = f.body(words[2])
	return words[1], body, err
}

// Settle deletes those that arrived, and buries the others.
func (f *beanstalkdFollower) Settle(jobs []*dialect.Arrival, arrived []bool, _ []string) error {
	var lines strings.Builder
	for i, a := range jobs {
		if arrived[i] {
			fmt.Fprintf(&lines, "delete %s\r\n", a.ID)
		} else {
			fmt.Fprintf(&lines, "bury %s %d\r\n", a.ID, a.Priority)
		}
	}
	return f.askEach(lines.String(), len(jobs)) // one that is not found comes again, and is known
}
