package migrate

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/job"
)

const (
	workqNamesMax = 500 // of one lease
	workqPage     = 100 // queues that are listed at a time
)

// workqFollower leases jobs of all names. Leases belong to no connection: one that is not settled ends with its TTR.
type workqFollower struct {
	*lineConn
	turn int // which of the names come next, if there are too many for one lease
}

func followWorkq(ctx context.Context, address string) (Follower, error) {
	c, err := dialLines(ctx, "Workq", address, "9922")
	if err != nil {
		return nil, err
	}
	return &workqFollower{lineConn: c}, nil
}

func (f *workqFollower) Protocol() string { return "workq" }

// Name is that of a command log: jobs have the same ids.
func (f *workqFollower) Name() string { return (*workq)(nil).Name() }

// items asks for a list and returns how many items follow. A refusal is ok, and has none.
func (f *workqFollower) items(command string) (int, error) {
	if err := f.ask(command + "\r\n"); err != nil {
		return 0, err
	}
	line, err := f.line()
	if err != nil {
		return 0, err
	}
	if line == "-TIMEOUT" || line == "-NOT-FOUND" {
		return 0, nil
	}
	text, ok := strings.CutPrefix(line, "+OK ")
	n, err := strconv.Atoi(text)
	if !ok || err != nil || n < 0 {
		return 0, f.unexpected(line)
	}
	return n, nil
}

// names lists the names of jobs that there are, or some of them if they are many.
func (f *workqFollower) names() (names []string, err error) {
	for {
		n, err := f.items(fmt.Sprintf("inspect queues %d %d", len(names), workqPage))
		if err != nil {
			return nil, err
		}
		for range n {
			label, _, err := f.item()
			if err != nil {
				return nil, err
			}
			names = append(names, label)
		}
		if n < workqPage {
			break
		}
	}
	if len(names) > workqNamesMax {
		from := f.turn % len(names)
		f.turn = from + workqNamesMax
		names = names[from:min(from+workqNamesMax, len(names))]
	}
	return names, nil
}

// item reads an item of inspect: a label, and keys with values.
func (f *workqFollower) item() (label string, values map[string]string, err error) {
	line, err := f.line()
	if err != nil {
		return "", nil, err
	}
	label, count, _ := strings.Cut(line, " ")
	n, err := strconv.Atoi(count)
	if err != nil {
		return "", nil, f.unexpected(line)
	}
	values = make(map[string]string)
	for range n {
		if size, ok := values["payload-size"]; ok && values["payload"] == "" && size != "" {
			if err := f.payload(values, size); err != nil {
				return "", nil, err
			}
			continue
		}
		line, err := f.line()
		if err != nil {
			return "", nil, err
		}
		key, value, _ := strings.Cut(line, " ")
		values[key] = value
	}
	return label, values, nil
}

// payload reads the line behind payload-size, which may have line ends in it.
func (f *workqFollower) payload(values map[string]string, size string) error {
	n, err := strconv.ParseUint(size, 10, 31)
	if err != nil {
		return f.unexpected("payload-size " + size)
	}
	b, err := f.block(n + uint64(len("payload ")))
	if err == nil && !strings.HasPrefix(string(b), "payload ") {
		err = f.unexpected(string(b))
	}
	values["payload"], values["payload-size"] = string(b), ""
	return err
}

// Fetch leases what is there, or waits a second for one job. A server may take a wait of zero for no lease at all.
func (f *workqFollower) Fetch(ctx context.Context) (jobs []*dialect.Arrival, err error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	names, err := f.names()
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		pause(ctx)
		return nil, nil
	}
	wait := 1000
	for size := 0; len(jobs) < fetchMax && size < fetchSize; wait = 1 {
		n, err := f.items(fmt.Sprintf("lease %s %d", strings.Join(names, " "), wait))
		if err != nil || n == 0 {
			return jobs, err
		}
		a, err := f.leased()
		if err != nil {
			return nil, err
		}
		if a != nil {
			jobs = append(jobs, a)
			size += len(a.Body)
		}
	}
	return jobs, nil
}

// leased reads the answer to a lease, and asks for the rest of the job; nil if somebody has just deleted it.
func (f *workqFollower) leased() (*dialect.Arrival, error) {
	line, err := f.line()
	if err != nil {
		return nil, err
	}
	words := strings.Fields(line) // id, name, ttr, size
	if len(words) != 4 {
		return nil, f.unexpected(line)
	}
	size, err := strconv.ParseUint(words[3], 10, 31)
	if err != nil {
		return nil, f.unexpected(line)
	}
	body, err := f.block(size)
	if err != nil {
		return nil, err
	}
	n, err := f.items("inspect job " + words[0])
	if err != nil || n == 0 {
		return nil, err
	}
	_, values, err := f.item()
	if err != nil {
		return nil, err
	}
	a, err := workqArrival(words[0], values)
	if err != nil {
		return nil, err
	}
	a.Queue, a.Body = words[1], body
	return a, nil
}

// workqArrival makes an arrival of the answer to inspect job.
func workqArrival(id string, values map[string]string) (*dialect.Arrival, error) {
	uuid, ok := dialect.ParseUUID(id)
	created, err := time.Parse(time.RFC3339, values["created"])
	if !ok || err != nil {
		return nil, fmt.Errorf("a job of Workq has the id %q and was created %q", id, values["created"])
	}
	f := facts(values)
	ttl, _ := strconv.ParseUint(values["ttl"], 10, 64) // that of a run is none
	a := &dialect.Arrival{
		ID: workqID(uuid, created), Key: id, State: job.Ready.String(), Priority: f.number("priority"),
		TTR: time.Duration(f.count("ttr")) * time.Millisecond, TTL: ttl, Created: job.TimeOf(created),
		MaxAttempts: f.count("max-attempts"), MaxFails: f.count("max-fails"), Fails: f.count("fails"),
		Attempts: max(f.count("attempts"), 1) - 1, // ours does not count
	}
	from := a.Created
	if at, err := time.Parse(time.RFC3339, values["time"]); err == nil {
		a.RunAt = max(job.TimeOf(at), 1)
		from = a.RunAt
	}
	a.ExpireAt = after(from, ttl)
	return a, nil
}

// Settle deletes those that arrived, and has the others fail. One that is not found any more comes again, and is known.
func (f *workqFollower) Settle(jobs []*dialect.Arrival, arrived []bool, why []string) error {
	var lines strings.Builder
	for i, a := range jobs {
		if arrived[i] {
			fmt.Fprintf(&lines, "delete %s\r\n", a.Key)
		} else {
			fmt.Fprintf(&lines, "fail %s %d\r\n%s\r\n", a.Key, len(why[i]), why[i])
		}
	}
	return f.askEach(lines.String(), len(jobs))
}
