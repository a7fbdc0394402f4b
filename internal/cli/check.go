package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"millrace/internal/job"
	"millrace/internal/offline"
)

func newCheckCommand(p Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check [DIR]",
		Short: "Verify a data directory or a backup that no server has open",
		Long: `Verify a data directory, or a backup, without changing it: its format, the checksums of
all files, that every record can be read, and that every invariant of the engine holds. Then
print how many jobs each queue has in each state.

Without DIR it looks at data.dir of the configuration. A server that has the directory
open must be stopped first. However many jobs there are, it takes little memory.
It also works on read-only media and without write access. A directory that cannot be
locked then is checked all the same, and a warning says so.

Exit status: 0 if all is well, 3 if the data is damaged, 1 if it could not be looked at
(not there, in use, not readable, of a newer release), 2 if the command line is wrong.`,
		Example: `  millrace check
  millrace check /var/lib/millrace/data
  millrace check --json /backup/monday | jq .ok`,
	}
	find := addDir(cmd, p)
	asJSON := cmd.Flags().Bool("json", false, "print a JSON object")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		dir, err := find(args)
		if err != nil {
			return err
		}
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			return fail(fmt.Errorf("the directory %s does not exist: check the path", dir))
		}
		bar := newProgress(cmd.ErrOrStderr())
		report, err := offline.Check(cmd.Context(), dir, bar.offline)
		bar.stop()
		warnUnlocked(cmd, &report, err)
		if *asJSON && (err == nil || errors.Is(err, offline.ErrDamaged)) {
			if err := printJSON(cmd.OutOrStdout(), checkFacts(dir, &report, err)); err != nil {
				return fail(err)
			}
		}
		if err != nil {
			return verdict(err)
		}
		if *asJSON {
			return nil
		}
		return fail(printReport(cmd.OutOrStdout(), dir, &report))
	}
	return cmd
}

// offline is an offline.ProgressFunc.
func (p *progress) offline(phase offline.Phase, done, total uint64) {
	p.update(string(phase), done, total)
}

// warnUnlocked tells what was not looked at, and that a directory could not be locked, which an error says itself.
func warnUnlocked(cmd *cobra.Command, r *offline.Report, err error) {
	if r.Node && err == nil {
		// nobody to tell
		_, _ = fmt.Fprintln(cmd.ErrOrStderr(), "Note: this is the store of a node of a cluster. What only its log "+
			"has was not looked at: the node applies it when it starts")
	}
	if r.Unlocked != nil && err == nil {
		_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "Warning: %v\n", r.Unlocked) // nobody to tell
	}
}

// verdict tells damage, with what to do about it, from other failures.
func verdict(err error) error {
	if !errors.Is(err, offline.ErrDamaged) {
		return fail(err)
	}
	// A directory that cannot be opened is told with what to do about it.
	if !offline.Advised(err) {
		err = fmt.Errorf(`%w; keep the directory as it is, and create another from a sound backup `+
			`with "millrace restore BACKUP DIR"`, err)
	}
	return &failure{err: err, status: exitDamaged}
}

func atMostOneDir(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return fmt.Errorf("%q takes one directory, but got %q too", cmd.CommandPath(), args[1])
	}
	return nil
}

// completeDirs lets the shell complete directories.
func completeDirs(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// states are all of them, in their order.
func states() []job.State {
	all := make([]job.State, 0, job.StateCount)
	for s := job.Scheduled; int(s) < job.StateCount; s++ {
		all = append(all, s)
	}
	return all
}

func printReport(w io.Writer, dir string, r *offline.Report) error {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(name string, counts *[job.StateCount]uint64) {
		for _, s := range states() {
			_, _ = fmt.Fprintf(table, "%d\t", counts[s]) // a Builder takes everything
		}
		_, _ = fmt.Fprintf(table, "  %s\n", name)
	}
	for _, s := range states() {
		_, _ = fmt.Fprintf(table, "%s\t", strings.ToUpper(s.Name()))
	}
	_, _ = fmt.Fprintln(table, "  QUEUE")
	for i := range r.Queues {
		q := &r.Queues[i]
		row(q.Namespace+"/"+q.Name, &q.Counts)
	}
	total := r.Jobs()
	row("total", &total)
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(&b, "\n%s is sound: %d records, %d bytes in %d tables.\n", dir, r.Records, r.TableBytes, r.Tables)
	_, err := io.WriteString(w, b.String())
	return err
}

// checked is a report as JSON shows it.
type checked struct {
	Dir        string            `json:"dir"`
	OK         bool              `json:"ok"`
	Problem    string            `json:"problem,omitempty"`
	Unlocked   string            `json:"unlocked,omitempty"` // why the directory could not be locked
	Tables     int               `json:"tables"`
	TableBytes int64             `json:"table_bytes"`
	Records    uint64            `json:"records"`
	Jobs       map[string]uint64 `json:"jobs"` // by state
	Queues     []checkedQueue    `json:"queues"`
}

type checkedQueue struct {
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"`
	Jobs      map[string]uint64 `json:"jobs"`
}

func checkFacts(dir string, r *offline.Report, problem error) checked {
	byState := func(counts [job.StateCount]uint64) map[string]uint64 {
		m := make(map[string]uint64, len(counts))
		for _, s := range states() {
			m[s.Name()] = counts[s]
		}
		return m
	}
	c := checked{
		Dir: dir, OK: problem == nil, Tables: r.Tables, TableBytes: r.TableBytes, Records: r.Records,
		Jobs: byState(r.Jobs()), Queues: make([]checkedQueue, 0, len(r.Queues)),
	}
	if problem != nil {
		c.Problem = problem.Error()
	}
	if r.Unlocked != nil {
		c.Unlocked = r.Unlocked.Error()
	}
	for i := range r.Queues {
		q := &r.Queues[i]
		c.Queues = append(c.Queues, checkedQueue{q.Namespace, q.Name, byState(q.Counts)})
	}
	return c
}
