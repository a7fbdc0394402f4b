package migrate

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"millrace/internal/dialect"
	"millrace/internal/job"
)

// masenkoRetry is how often a task is tried again unless it says so. A worker does not learn what it says.
const masenkoRetry = 20

// masenkoFollower fetches from all queues. What it holds fails there if the connection ends.
type masenkoFollower struct{ *lineConn }

func followMasenko(ctx context.Context, address string) (Follower, error) {
	c, err := dialLines(ctx, "Masenko", address, "12345")
	if err != nil {
		return nil, err
	}
	return &masenkoFollower{c}, nil
}

func (f *masenkoFollower) Protocol() string { return "masenko" }

// Name has the address, because ids are small numbers.
func (f *masenkoFollower) Name() string { return "masenko:" + f.host }

// do sends a request and reads the answer; not ok if it is EMPTY.
func (f *masenkoFollower) do(request string, out any) (ok bool, err error) {
	if err := f.ask(request + "\n"); err != nil {
		return false, err
	}
	line, err := f.line()
	if err != nil {
		return false, err
	}
	verb, text, _ := strings.Cut(line, " ")
	switch {
	case verb == "EMPTY":
		return false, nil
	case verb != "OK" || json.Unmarshal([]byte(text), out) != nil:
		return false, f.unexpected(line)
	}
	return true, nil
}

// queues lists the queues that there are.
func (f *masenkoFollower) queues() (queues []string, err error) {
	var info struct {
		Queues []struct{ Name string }
	}
	_, err = f.do("INFO {}", &info)
	for _, q := range info.Queues {
		queues = append(queues, q.Name)
	}
	return queues, err
}

// Fetch fetches what is there, or waits a second for one task.
func (f *masenkoFollower) Fetch(ctx context.Context) (jobs []*dialect.Arrival, err error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	queues, err := f.queues()
	if err != nil {
		return nil, err
	}
	if len(queues) == 0 {
		queues = []string{"default"}
	}
	wait := "1s"
	for size := 0; len(jobs) < fetchMax && size < fetchSize; wait = "1ms" {
		request, err := json.Marshal(map[string]any{"queues": queues, "timeout": wait})
		if err != nil {
			return nil, err
		}
		var task struct {
			ID          uint32
			Queue, Name string
			Payload     json.RawMessage
			Failures    uint32
		}
		if ok, err := f.do("FETCH "+string(request), &task); err != nil || !ok {
			return jobs, err
		}
		jobs = append(jobs, &dialect.Arrival{
			ID: strconv.FormatUint(
				uint64(task.ID),
				10,
			),
			Queue:    task.Queue,
			Type:     task.Name,
			State:    job.Ready.String(),
			Text:     task.Payload,
			Attempts: task.Failures,
			Fails:    task.Failures,
			MaxFails: max(masenkoRetry, task.Failures) + 1,
		})
		size += len(task.Payload)
	}
	return jobs, nil
}

// Settle acknowledges those that arrived, and has the others fail.
func (f *masenkoFollower) Settle(jobs []*dialect.Arrival, arrived []bool, _ []string) error {
	var lines strings.Builder
	for i, a := range jobs {
		verb := "NACK"
		if arrived[i] {
			verb = "ACK"
		}
		fmt.Fprintf(&lines, "%s {\"id\":%s}\n", verb, a.ID)
	}
	if err := f.ask(lines.String()); err != nil {
		return err
	}
	for range jobs {
		line, err := f.line()
		if err == nil && !strings.HasPrefix(line, "OK") {
			err = f.unexpected(line)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
