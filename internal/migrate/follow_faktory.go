package migrate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"millrace/internal/dialect"
	"millrace/internal/job"
)

// faktoryFollower fetches from all queues on one connection, and settles on another: a fetch may take two seconds.
type faktoryFollower struct {
	fetch, settle *faktoryConn
	jobs          chan *dialect.Arrival
	failed        chan error
	stop          context.CancelFunc
}

// faktoryConn is a connection to a Faktory server.
type faktoryConn struct{ *lineConn }

func followFaktory(ctx context.Context, address string) (Follower, error) {
	u, ok := parseTCP(address, "7419")
	if !ok {
		return nil, fmt.Errorf("%q is not an address to follow: write tcp://:PASSWORD@HOST:PORT", address)
	}
	password, _ := u.User.Password()
	f := &faktoryFollower{jobs: make(chan *dialect.Arrival, fetchMax), failed: make(chan error, 1)}
	for _, c := range []**faktoryConn{&f.fetch, &f.settle} {
		conn, err := dialFaktory(ctx, u.Host, password)
		if err != nil {
			return nil, err
		}
		*c = conn
	}
	ctx, f.stop = context.WithCancel(ctx)
	go func() { f.failed <- f.fetchAll(ctx) }()
	return f, nil
}

// dialFaktory connects and says hello.
func dialFaktory(ctx context.Context, host, password string) (*faktoryConn, error) {
	conn, err := dialHost(ctx, "Faktory", host)
	if err != nil {
		return nil, err
	}
	c := &faktoryConn{conn}
	if err := c.hello(password); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return c, nil
}

func (c *faktoryConn) hello(password string) error {
	text, err := c.answer()
	if err != nil {
		return err
	}
	var hi struct {
		Salt       string `json:"s"`
		Iterations int    `json:"i"`
	}
	if err := json.Unmarshal([]byte(strings.TrimPrefix(text, "HI ")), &hi); err != nil {
		return fmt.Errorf("it is no Faktory server: %q", text)
	}
	hello := map[string]any{"v": 2}
	if hi.Salt != "" {
		sum := sha256.Sum256([]byte(password + hi.Salt))
		for range hi.Iterations - 1 {
			sum = sha256.Sum256(sum[:])
		}
		hello["pwdhash"] = hex.EncodeToString(sum[:])
	}
	text2, err := json.Marshal(hello)
	if err != nil {
		return err
	}
	_, err = c.do("HELLO " + string(text2))
	return err
}

// do sends a command and reads the answer.
func (c *faktoryConn) do(command string) (string, error) {
	if err := c.ask(command + "\r\n"); err != nil {
		return "", err
	}
	return c.answer()
}

// answer reads an answer; empty for none.
func (c *faktoryConn) answer() (string, error) {
	line, err := c.line()
	if err != nil {
		return "", err
	}
	kind, rest := line[:min(1, len(line))], line[min(1, len(line)):]
	switch kind {
	case "+":
		return rest, nil
	case "$":
		size, err := strconv.Atoi(rest)
		if err != nil || size < 0 {
			return "", nil //nolint:nilerr // none
		}
		text, err := c.block(uint64(size))
		return string(text), err
	default:
		return "", fmt.Errorf("the Faktory server answers %q", line)
	}
}

func (f *faktoryFollower) Protocol() string { return "faktory" }

// Name is that of a Faktory server that is read by its Redis: jobs have the same ids.
func (f *faktoryFollower) Name() string { return (*faktory)(nil).Name() }

func (f *faktoryFollower) Close() error {
	f.stop()
	return errors.Join(f.fetch.Close(), f.settle.Close())
}

// fetchAll fetches until ctx ends. A job that is on its way then is held by nobody until its reservation ends.
func (f *faktoryFollower) fetchAll(ctx context.Context) error {
	for ctx.Err() == nil {
		queues, err := f.queues()
		if err != nil {
			return err
		}
		for again := true; again && ctx.Err() == nil; {
			text, err := f.fetch.do("FETCH " + strings.Join(queues, " "))
			if err != nil {
				return err
			}
			again = text != "" // else look for other queues
			if !again {
				break
			}
			var one collectOne
			r := faktoryReader{to: &one}
			if err := r.job(text, dialect.Arrival{State: job.Ready.String()}); err != nil {
				return err
			}
			if one.job == nil {
				return fmt.Errorf("the Faktory server gives out what is no job: %s", clipped(text))
			}
			select {
			case f.jobs <- one.job:
			case <-ctx.Done():
			}
		}
	}
	return nil
}

// collectOne is a Sink for one job.
type collectOne struct{ job *dialect.Arrival }

func (c *collectOne) Take(a *dialect.Arrival) error {
	one := *a
	c.job = &one
	return nil
}

func (c *collectOne) Leave(*dialect.Arrival, string) {}

// queues asks which queues there are.
func (f *faktoryFollower) queues() ([]string, error) {
	text, err := f.fetch.do("INFO")
	if err != nil {
		return nil, err
	}
	var info struct {
		Faktory struct {
			Queues map[string]any `json:"queues"`
		} `json:"faktory"`
	}
	if err := json.Unmarshal([]byte(text), &info); err != nil {
		return nil, fmt.Errorf("read what Faktory tells of itself: %w", err)
	}
	if len(info.Faktory.Queues) == 0 {
		return []string{"default"}, nil
	}
	return slices.Sorted(maps.Keys(info.Faktory.Queues)), nil
}

// Fetch returns what has been fetched meanwhile.
func (f *faktoryFollower) Fetch(ctx context.Context) (jobs []*dialect.Arrival, err error) {
	select {
	case a := <-f.jobs: // before all else: the source takes them for being worked on
		jobs = append(jobs, a)
	default:
		select {
		case a := <-f.jobs:
			jobs = append(jobs, a)
		case err := <-f.failed:
			return nil, err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	for size := 0; len(jobs) < fetchMax && size < fetchSize; {
		select {
		case a := <-f.jobs:
			jobs = append(jobs, a)
			size += len(a.Text)
		default:
			return jobs, nil
		}
	}
	return jobs, nil
}

// Settle acknowledges those that arrived, and has the others fail.
func (f *faktoryFollower) Settle(jobs []*dialect.Arrival, arrived []bool, why []string) error {
	for i, a := range jobs {
		jid, _, _ := strings.Cut(a.ID, " ")
		command, fields := "ACK ", map[string]any{"jid": jid}
		if !arrived[i] {
			command, fields["errtype"], fields["message"] = "FAIL ", "Migration", why[i]
		}
		text, err := json.Marshal(fields)
		if err != nil {
			return err
		}
		if err := f.settle.ask(command + string(text) + "\r\n"); err != nil {
			return err
		}
	}
	for range jobs {
		if _, err := f.settle.answer(); err != nil {
			return err
		}
	}
	return nil
}
