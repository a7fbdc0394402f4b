package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/internal/api"
	"millrace/internal/apiclient"
	"millrace/internal/migrate"
)

// migrateTries is how often a request is tried before the migration is given up; it waits a second longer each time.
const migrateTries = 10

func newMigrateCommand(p Process) *cobra.Command {
	cmd := &cobra.Command{ //nolint:gosec // the passwords are examples
		Use:   "migrate KIND ADDRESS",
		Short: "Bring over what an original server holds",
		Long: `Read everything that another server holds, and push it to a running Millrace server: jobs in every
state with their tries, failures and times, in their order, and which queues are paused. Jobs that
workers hold arrive as ready. The other server is only read from.

KIND and ADDRESS are
  faktory     its Redis server: redis://HOST:PORT/DB, rediss:// with TLS, or unix:///PATH?db=N;
              or the RDB file that the Redis server has saved: FILE, or FILE?db=N
  lmstfy      the Redis server of one of its pools, in the same forms; ?pool=NAME names one that is not "default"
  beanstalkd  tcp://HOST:PORT, or the directory of its binlog, with the server stopped
  tarantool   a running server with the queue module: tcp://USER:PASSWORD@HOST:PORT
  workq       the directory of its command log, with the server stopped
  masenko     the directory of its write-ahead files, with the server stopped

The server here remembers which jobs have arrived, by their ids at the source, for 60 days after the
last run. So the command can be interrupted and run again as often as you like: nothing arrives
twice, even after it has been worked off. Jobs that come to the other server while it is read, or
later, arrive with the next run. Sources are distinguished by a name, which --name changes. --forget
drops the record of what has arrived from a source.

With --follow it takes jobs as a worker does, from the server itself, until it is interrupted: each
is acknowledged there only when it is durable here. So producers and workers can be switched in any
order. ADDRESS is then
  faktory     tcp://:PASSWORD@HOST:PORT
  tarantool   tcp://USER:PASSWORD@HOST:PORT
  lmstfy      http://TOKEN@HOST:PORT/NAMESPACE/QUEUE,QUEUE
  others      tcp://HOST:PORT
Jobs that are scheduled there are passed on when they are due. Migrate them first, or later. A
Masenko server does not tell its workers how often a task may fail, nor its dead queue: such tasks
get the defaults.

The report compares both sides by queue and state. Jobs that cannot be brought over, or not whole,
are listed with the reason. The exit status is 1 if a job was left behind.`,
		Example: `  millrace migrate faktory redis://localhost:6379/0 --dry-run
  millrace migrate faktory unix:///var/lib/faktory/db/redis.sock
  millrace migrate faktory /var/lib/faktory/db/faktory.rdb
  millrace migrate lmstfy redis://localhost:6379/1?pool=fast
  millrace migrate beanstalkd tcp://localhost:11300
  millrace migrate beanstalkd /var/lib/beanstalkd
  millrace migrate tarantool tcp://mover:secret@localhost:3301
  millrace migrate workq /var/lib/workq
  millrace migrate masenko /var/lib/masenko
  millrace migrate --follow faktory tcp://:secret@localhost:7419
  millrace migrate --follow lmstfy http://TOKEN@localhost:7777/mail/outgoing,urgent
  millrace migrate faktory redis://localhost:6379/0 --forget`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 { //nolint:mnd // as Use says
				return fmt.Errorf("name the kind of server (%s) and its address", strings.Join(migrate.Kinds(), ", "))
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return migrate.Kinds(), cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveDefault
		},
	}
	m := &migrator{}
	cmd.Flags().BoolVar(&m.o.DryRun, "dry-run", false, "read everything and report what would arrive; change nothing")
	cmd.Flags().StringVar(&m.o.Name, "name", "",
		"a name of the source, instead of the one made of its kind and address")
	cmd.Flags().StringVar(&m.o.Namespace, "namespace", "", "the namespace here, if the protocol is served in several")
	cmd.Flags().BoolVar(&m.follow, "follow", false, "pass jobs on as a worker of the source, until interrupted")
	cmd.Flags().BoolVar(&m.forget, "forget", false, "forget what has arrived from the source, and read nothing")
	f := addAPI(cmd, p)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		m.stderr = cmd.ErrOrStderr()
		err := f.transfer(cmd, func(ctx context.Context, c *apiclient.Client, bar *progress) error {
			return m.run(ctx, c, bar, args[0], args[1])
		})
		if m.report == nil {
			return err
		}
		if perr := m.print(cmd.OutOrStdout(), f.asJSON, err == nil); perr != nil {
			return fail(perr)
		}
		if err != nil && m.report.Sum().Read > 0 {
			return fmt.Errorf("%w\nNothing is lost: run it again to go on", err)
		}
		if err != nil {
			return err
		}
		if sum := m.report.Sum(); sum.Refused > 0 {
			return fail(fmt.Errorf("%s could not be brought over", plural(sum.Refused, "job")))
		}
		return nil
	}
	return cmd
}

// migrator is a migration.
type migrator struct {
	o      migrate.Options
	forget bool
	follow bool
	stderr io.Writer
	bar    *progress
	began  time.Time
	report *migrate.Report
}

func (m *migrator) run(ctx context.Context, c *apiclient.Client, bar *progress, kind, address string) error {
	m.bar, m.began = bar, time.Now()
	m.o.Server, m.o.Progress, m.o.Problem = c, m.progress, m.problem
	m.o.Passing = func(ctx context.Context, err error, try int) bool {
		return try < migrateTries && passing(err) && sleep(ctx, time.Duration(try)*time.Second)
	}
	if m.follow {
		return m.followSource(ctx, c, kind, address)
	}
	source, err := migrate.Open(ctx, kind, address)
	if err != nil {
		return fail(err)
	}
	defer source.Close() //nolint:errcheck // only read from
	if m.forget {
		return m.forgetSource(ctx, c, orElse(m.o.Name, source.Name()))
	}
	if err := m.warnOfOthers(ctx, c, source); err != nil {
		return err
	}
	m.report, err = migrate.Run(ctx, source, m.o)
	return ofMigration(err)
}

// followSource passes jobs on until it is interrupted, which is no failure.
func (m *migrator) followSource(ctx context.Context, c *apiclient.Client, kind, address string) error {
	if m.o.DryRun || m.forget {
		return errors.New("--follow goes together with neither --dry-run nor --forget")
	}
	f, err := migrate.OpenFollower(ctx, kind, address)
	if err != nil {
		return fail(err)
	}
	defer f.Close() //nolint:errcheck // nothing is left to be said
	if err := m.warnOfOthers(ctx, c, f); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(m.stderr, "following %s: interrupt to stop\n", f.Name()) // nobody to tell
	m.report, err = migrate.Follow(ctx, f, m.o)
	return ofMigration(err)
}

// warnOfOthers tells of other sources of the protocol, if this one is new: it may be the same server under another
// name, and then everything arrives twice.
func (m *migrator) warnOfOthers(ctx context.Context, c *apiclient.Client, source interface {
	Name() string
	Protocol() string
},
) error {
	known, err := c.Migrations(ctx)
	if err != nil {
		return err
	}
	name, others := orElse(m.o.Name, source.Name()), []string{}
	for _, k := range known.Migrations {
		if k.Source == name {
			return nil
		}
		if k.Protocol == source.Protocol() {
			others = append(others, k.Source)
		}
	}
	if len(others) > 0 { // nobody to tell otherwise
		_, _ = fmt.Fprintf(m.stderr, "%s is new here. Jobs have arrived from %s: if that is the same server, they "+
			"arrive a second time. Then interrupt this, and add --name with the name that it had.\n",
			name, strings.Join(others, ", "))
	}
	return nil
}

// ofMigration marks an error that is none of the server's here.
func ofMigration(err error) error {
	if _, ok := errors.AsType[*api.Problem](err); ok || err == nil {
		return err
	}
	if _, ok := errors.AsType[*apiclient.Unreachable](err); ok || errors.Is(err, context.Canceled) {
		return err
	}
	return fail(err)
}

// forgetSource forgets what has arrived from a source.
func (m *migrator) forgetSource(ctx context.Context, c *apiclient.Client, name string) error {
	for {
		done, err := c.ForgetMigration(ctx, name)
		if err != nil {
			return err
		}
		if done {
			_, err := fmt.Fprintf(m.stderr, "forgotten what has arrived from %s\n", name)
			return fail(err)
		}
	}
}

// progress shows how far it is, how fast, and how long the rest takes.
func (m *migrator) progress(done, total uint64) {
	rate := float64(done) / time.Since(m.began).Seconds()
	m.bar.note = fmt.Sprintf(", %.0f jobs/s", rate)
	if total > done && rate > 0 {
		left := time.Duration(float64(total-done) / rate * float64(time.Second))
		m.bar.note += fmt.Sprintf(", %s left", left.Round(time.Second))
	}
	if total > 0 {
		total = max(total, done+1)
	}
	m.bar.update("migrating", done, total)
}

func (m *migrator) problem(p migrate.Problem) {
	m.bar.stop()
	what := "not brought over"
	if p.Partly {
		what = "brought over without"
	}
	// nobody to tell
	_, _ = fmt.Fprintf(m.stderr, "%s, %s %s: %s: %s\n", printable(p.Queue), p.State, printable(p.ID), what,
		printable(p.Problem))
}

// print prints the report.
func (m *migrator) print(w io.Writer, asJSON, complete bool) error {
	r := m.report
	if asJSON {
		return printJSON(w, r)
	}
	if complete && !m.follow {
		arrived := "arrived"
		if r.DryRun {
			arrived = "would arrive"
		}
		t := newTable(w, "queue", "state", "at the source", arrived, "before", "left behind", "here now")
		for _, row := range r.Rows {
			queue := row.Queue
			if row.Namespace != "" {
				queue = row.Namespace + "/" + queue
			}
			cells := []string{queue, row.State}
			for _, n := range []uint64{row.Read, row.Arrived, row.Repeated, row.Refused, row.Here} {
				cells = append(cells, count(n))
			}
			t.row(cells...)
		}
		if err := t.flush(); err != nil {
			return err
		}
	}
	sum := r.Sum()
	text := fmt.Sprintf("%s read from %s: %d arrived, %d had arrived before, %d left behind", plural(sum.Read, "job"),
		r.Source, sum.Arrived, sum.Repeated, sum.Refused)
	if r.DryRun {
		text = strings.Replace(text, " arrived,", " would arrive,", 1)
	}
	if r.Seconds > 0 {
		text += fmt.Sprintf(", in %.1f s (%.0f jobs/s)", r.Seconds, float64(sum.Read)/r.Seconds)
	}
	if k := r.Tokens; k != nil {
		text += fmt.Sprintf("\n%s of clients: %d arrived, %d were here before, %d left behind", plural(k.Read, "token"),
			k.Arrived, k.Repeated, k.Refused)
	}
	if complete && !m.follow && r.Left != sum.Read {
		text += fmt.Sprintf("\nThe source has %s now: it is in use. Run this again to bring over the others.",
			plural(r.Left, "job"))
	}
	_, err := fmt.Fprintln(w, text)
	return err
}
