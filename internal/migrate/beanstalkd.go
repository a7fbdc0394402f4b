package migrate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/job"
)

// openBeanstalkd opens a running server, or the directory of its binlog.
func openBeanstalkd(ctx context.Context, address string) (Source, error) {
	if info, err := os.Stat(address); err == nil && info.IsDir() {
		return openBinlog(address)
	}
	u, ok := parseTCP(address, "11300")
	if !ok {
		return nil, fmt.Errorf("%q is neither the directory of a binlog nor an address: write tcp://HOST:PORT", address)
	}
	c, err := dialHost(ctx, "beanstalkd", u.Host)
	if err != nil {
		return nil, err
	}
	b := &beanstalkd{lineConn: c, source: "beanstalkd:" + u.Host}
	stats, _, err := b.facts("stats")
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if stats.number("binlog-current-index") == 0 { // without one its next life begins with the same ids
		b.source += "@" + stats["id"]
	}
	return b, nil
}

const (
	// dialTimeout bounds the time to reach a source.
	dialTimeout = 10 * time.Second
	// askTimeout bounds the time that a source takes to answer.
	askTimeout = time.Minute
	// idsAtOnce is how many jobs a server is asked for together.
	idsAtOnce = 500
)

// beanstalkd reads a running server. No command lists its jobs, but their ids are numbers that begin with 1: it asks
// for one after the other until it has met as many jobs as the server has.
type beanstalkd struct {
	*lineConn
	source string
}

func (b *beanstalkd) Protocol() string { return "beanstalkd" }

// Name has the address, because ids are small numbers.
func (b *beanstalkd) Name() string { return b.source }

// answer reads an answer: its words, and the body of one that has a body. Found is false for NOT_FOUND.
func (b *beanstalkd) answer() (body []byte, found bool, err error) {
	line, err := b.line()
	if err != nil {
		return nil, false, err
	}
	words := strings.Fields(line)
	switch {
	case len(words) == 1 && words[0] == "NOT_FOUND":
		return nil, false, nil
	case len(words) < 2 || words[0] != "OK" && words[0] != "FOUND":
		return nil, false, b.unexpected(line)
	}
	body, err = b.body(words[len(words)-1])
	return body, err == nil, err
}

// body reads a body of a size that was told.
func (b *beanstalkd) body(text string) ([]byte, error) {
	size, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return nil, fmt.Errorf("beanstalkd tells of a body of %q bytes", text)
	}
	return b.block(size)
}

// tubes lists the tubes.
func (b *beanstalkd) tubes() (tubes []string, err error) {
	if err := b.ask("list-tubes\r\n"); err != nil {
		return nil, err
	}
	list, _, err := b.answer()
	for line := range strings.Lines(string(list)) {
		if tube, ok := strings.CutPrefix(strings.TrimSpace(line), "- "); ok {
			tubes = append(tubes, strings.Trim(tube, `"`))
		}
	}
	return tubes, err
}

// facts asks for a map, such as the answer to stats is one.
func (b *beanstalkd) facts(command string) (facts, bool, error) {
	if err := b.ask(command + "\r\n"); err != nil {
		return nil, false, err
	}
	body, found, err := b.answer()
	return parseFacts(body), found, err
}

// facts are the members of a map in YAML, all of one line.
type facts map[string]string

func parseFacts(text []byte) facts {
	f := make(facts)
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ": "); ok {
			value = strings.TrimSpace(value)
			if unquoted, err := strconv.Unquote(value); err == nil {
				value = unquoted
			}
			f[key] = value
		}
	}
	return f
}

func (f facts) number(key string) int64 {
	n, _ := strconv.ParseInt(f[key], 10, 64) // what is not there is zero
	return n
}

func (f facts) count(key string) uint32 { return uint32(min(max(f.number(key), 0), 1<<32-1)) }

func (f facts) seconds(key string) time.Duration { return time.Duration(f.number(key)) * time.Second }

func (b *beanstalkd) Count(context.Context) (uint64, error) {
	stats, found, err := b.facts("stats")
	if err == nil && !found {
		err = errors.New("beanstalkd has no stats")
	}
	total := int64(0)
	for _, state := range []string{"ready", "reserved", "delayed", "buried"} {
		total += stats.number("current-jobs-" + state)
	}
	return uint64(max(total, 0)), err
}

func (b *beanstalkd) Read(ctx context.Context, to Sink) error {
	if err := b.pauses(to); err != nil {
		return err
	}
	met := uint64(0)
	for first := uint64(1); ; first += idsAtOnce {
		total, err := b.Count(ctx)
		if err != nil || met >= total {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		n, err := b.some(first, to)
		if err != nil {
			return err
		}
		met += n
	}
}

// pauses tells of the tubes that are paused.
func (b *beanstalkd) pauses(to Sink) error {
	tubes, err := b.tubes()
	if err != nil {
		return err
	}
	for _, tube := range tubes {
		stats, found, err := b.facts("stats-tube " + tube)
		if err != nil {
			return err
		}
		if left := stats.seconds("pause-time-left"); found && left > 0 {
			err := to.Take(&dialect.Arrival{
				ID: "paused " + tube, Queue: tube, State: dialect.StatePaused,
				RunAt: job.TimeOf(time.Now().Add(left)),
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// some reads the jobs of some ids. It returns how many there are.
func (b *beanstalkd) some(first uint64, to Sink) (met uint64, err error) {
	var lines strings.Builder
	for id := first; id < first+idsAtOnce; id++ {
		fmt.Fprintf(&lines, "stats-job %d\r\n", id)
	}
	if err := b.ask(lines.String()); err != nil {
		return 0, err
	}
	lines.Reset()
	var jobs []*dialect.Arrival
	for range idsAtOnce {
		text, found, err := b.answer()
		if err != nil {
			return 0, err
		}
		if found {
			a := arrivalOf(parseFacts(text))
			jobs = append(jobs, a)
			lines.WriteString("peek " + a.ID + "\r\n")
		}
	}
	if err := b.ask(lines.String()); err != nil {
		return 0, err
	}
	for _, a := range jobs {
		body, found, err := b.answer()
		if err != nil {
			return met, err
		}
		if !found {
			continue // it has just been deleted
		}
		met++
		a.Body = body
		if err := to.Take(a); err != nil {
			return met, err
		}
	}
	return met, nil
}

// beanstalkdStates are the names of states.
var beanstalkdStates = map[string]job.State{
	"ready": job.Ready, "reserved": job.Leased, "delayed": job.Scheduled, "buried": job.Buried,
}

// arrivalOf makes an arrival of the answer to stats-job.
func arrivalOf(f facts) *dialect.Arrival {
	now := time.Now()
	a := &dialect.Arrival{
		ID: f["id"], Queue: f["tube"], State: beanstalkdStates[f["state"]].String(), Priority: f.number("pri"),
		TTR: f.seconds("ttr"), Delay: f.seconds("delay"),
		Created: job.TimeOf(now.Add(-f.seconds("age"))), Attempts: f.count("reserves"), Lapses: f.count("timeouts"),
		Releases: f.count("releases"),
		Buries:   f.count("buries"), Kicks: f.count("kicks"),
	}
	if a.State == job.Scheduled.String() {
		a.RunAt = job.TimeOf(now.Add(f.seconds("time-left")))
	}
	return a
}
