package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"millrace/internal/api"
	"millrace/internal/apiclient"
)

const (
	pushBodyMax  = 4 << 20 // bytes of one job
	pushLinesMax = 500     // jobs of one request
)

// pusher is the flags of "push".
type pusher struct {
	api.NewJob
	namespace *string
	delay     string
	at        string
	ttl       string
	lease     string
	retry     int
	kind      string
	lines     bool
	api       *apiFlags
}

func newPushCommand(p Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "push QUEUE [BODY]",
		Short: "Push a job, or one for each line of the input",
		Long: `Push a job to a queue and print its id. Without BODY, or with "-", the body is read from standard
input if that is not a terminal. What is JSON is pushed as JSON, everything else as text or bytes;
--kind says otherwise.

A job that fails is tried again --retry times, with delays that grow from 15 seconds to days, and is
dead then. With --key and --unique nothing is pushed if a job has the key, and the id of that one is
printed: a push that may have been done can be repeated.`,
		Example: `  millrace push mails '{"to": "ann@example.org"}'
  millrace push reports --type Report --key report-2030-01 --unique --delay 10m < report.json
  millrace push mails --kind args '["ann@example.org", 3]'
  seq 1000 | millrace push numbers --lines`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return fmt.Errorf("%q takes a queue and a body, but got %d arguments", cmd.CommandPath(), len(args))
			}
			return nil
		},
	}
	u := new(pusher)
	u.namespace = addNamespace(cmd, namespaceDefault, "namespace of the queue")
	flags := cmd.Flags()
	flags.StringVar(&u.Type, "type", "", "type of the job, which tells workers what to do")
	flags.StringVar(&u.Key, "key", "", "a name of your own for the job")
	flags.BoolVar(&u.Unique, "unique", false, "push nothing if a job has the key already")
	flags.StringVar(&u.Group, "group", "", "jobs of a group run one at a time, or take turns with other "+
		"groups in a fair queue")
	flags.Int64Var(&u.Priority, "priority", 0, "higher first")
	flags.StringVar(&u.delay, "delay", "", "not before this time has passed, such as 10m")
	flags.StringVar(&u.at, "at", "", "not before this time, such as 2030-01-02T15:04:05Z")
	flags.StringVar(&u.ttl, "ttl", "", "gone if no worker has taken it within this time")
	flags.StringVar(&u.lease, "lease", "", "how long a worker holds it, where the worker does not say")
	flags.IntVar(&u.retry, "retry", api.RetryDefault, "how often it is tried again after a failure")
	flags.BoolVar(&u.Keep, "keep", false, "keep it with its result when it is done, until --ttl")
	flags.StringVar(&u.kind, "kind", "", "what the body is: json, args (a JSON array of arguments), "+
		"bytes, msgpack or none")
	flags.BoolVar(&u.lines, "lines", false, "push one job for each line of standard input")
	completes(cmd, "kind", []string{"json", "args", "bytes", "msgpack", "none"})
	u.api = addAPI(cmd, p)
	complete := u.api.completeQueues(u.namespace)
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(cmd, args, begun)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := u.times(); err != nil {
			return err
		}
		u.Retry = &u.retry
		return u.api.ask(func(c *apiclient.Client) error {
			ctx, stop := p.interruptible(cmd.Context())
			defer stop()
			if u.lines {
				if len(args) > 1 || u.Key != "" {
					return errors.New("--lines: the bodies are read from standard input, and all would have the same " +
						"--key: leave both out")
				}
				return u.pushLines(ctx, cmd, c, args[0])
			}
			body, err := bodyOf(cmd, args[1:], u.kind)
			if err != nil {
				return err
			}
			return u.push(ctx, cmd, c, args[0], [][]byte{body})
		})
	}
	return cmd
}

// times reads the flags that are times.
func (u *pusher) times() error {
	for _, part := range []struct {
		flag, text string
		to         *float64
	}{{"--delay", u.delay, &u.Delay}, {"--ttl", u.ttl, &u.TTL}, {"--lease", u.lease, &u.Lease}} {
		if part.text == "" {
			continue
		}
		d, err := parsePositive(part.flag, part.text)
		if err != nil {
			return err
		}
		*part.to = d.Seconds()
	}
	var err error
	u.RunAt, err = moment("--at", u.at, true)
	return err
}

// bodyOf finds the body of a single job. Nil is none.
func bodyOf(cmd *cobra.Command, args []string, kind string) ([]byte, error) {
	if len(args) > 0 && args[0] != "-" {
		return []byte(args[0]), nil
	}
	in := cmd.InOrStdin()
	if w, ok := in.(io.Writer); len(args) == 0 && (kind == "none" || ok && isTerminal(w)) {
		return nil, nil
	}
	body, err := io.ReadAll(io.LimitReader(in, pushBodyMax+1))
	switch {
	case err != nil:
		return nil, fail(fmt.Errorf("read the body: %w", err))
	case len(body) > pushBodyMax:
		return nil, fail(fmt.Errorf("the body is longer than %d bytes: push a reference to it instead", pushBodyMax))
	case len(body) == 0 && len(args) == 0:
		return nil, nil
	}
	return body, nil
}

// job makes a job of a body.
func (u *pusher) job(body []byte) *api.NewJob {
	j := u.NewJob
	j.BodyKind = u.kind
	switch {
	case body == nil:
	case u.kind == "" && json.Valid(body):
		j.Body = body
	case utf8.Valid(body):
		text := string(body)
		j.BodyText = &text
	default:
		j.BodyBase64 = body
	}
	return &j
}

// push pushes some jobs and prints their ids.
func (u *pusher) push(
	ctx context.Context, cmd *cobra.Command, c *apiclient.Client, queue string, bodies [][]byte,
) error {
	jobs := make([]*api.NewJob, 0, len(bodies))
	for _, b := range bodies {
		jobs = append(jobs, u.job(b))
	}
	out, err := c.Push(ctx, *u.namespace, queue, jobs)
	if err != nil {
		return err
	}
	for i := range out.Jobs {
		j := &out.Jobs[i]
		switch {
		case u.api.asJSON:
			err = printLine(cmd.OutOrStdout(), j)
		case j.Problem != nil:
			_, err = fmt.Fprintf(cmd.ErrOrStderr(), "refused: %s\n", printable(j.Problem.Detail))
		default:
			_, err = fmt.Fprintln(cmd.OutOrStdout(), j.ID)
		}
		if err != nil {
			return fail(err)
		}
	}
	if out.Refused > 0 {
		return fail(fmt.Errorf("%s refused", plural(out.Refused, "job")))
	}
	return nil
}

// pushLines pushes a job for each line of the input, many with one request.
func (u *pusher) pushLines(ctx context.Context, cmd *cobra.Command, c *apiclient.Client, queue string) error {
	in := bufio.NewScanner(cmd.InOrStdin())
	in.Buffer(make([]byte, 64<<10), pushBodyMax)
	var bodies [][]byte
	size, pushed := 0, uint64(0)
	flush := func() error {
		if len(bodies) == 0 {
			return nil
		}
		if err := u.push(ctx, cmd, c, queue, bodies); err != nil {
			return fmt.Errorf("%w (%s pushed before)", apiError(err), plural(pushed, "job"))
		}
		pushed += uint64(len(bodies))
		bodies, size = bodies[:0], 0
		return nil
	}
	for in.Scan() {
		line := in.Bytes()
		if len(bodies) == pushLinesMax || size+len(line) > pushBodyMax {
			if err := flush(); err != nil {
				return err
			}
		}
		bodies = append(bodies, bytes.Clone(line))
		size += len(line)
	}
	if err := in.Err(); err != nil {
		return fail(fmt.Errorf("read the input: %w", err))
	}
	return flush()
}
