package cli

import (
	"errors"
	"fmt"
	"regexp"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const rootLong = `Millrace is a durable job server. It keeps jobs on disk and speaks the protocols of
existing work queues, so that their clients work unchanged.

Without a command it serves: on loopback, with its data in ./millrace-data.

Every setting can be given as a flag, as an environment variable and in a TOML file
(--config): --data-dir is MILLRACE_DATA_DIR and data.dir. A flag wins over the
environment, the environment over the file. "millrace serve --help" lists the flags,
and "millrace config example" explains every setting.

Exit status: 0 after an orderly stop, 1 if something went wrong while running, 2 if
the command line or the configuration is wrong; 3 if "check" or "restore" finds
damaged data; 4 if there is no such queue or job, or nothing to fetch; 5 if a server
that is asked does not answer.`

const rootExample = `  # start with the defaults
  millrace

  # another data directory and port
  millrace --data-dir /var/lib/millrace --masenko-addr 127.0.0.1:4000

  # the same from the environment
  MILLRACE_DATA_DIR=/var/lib/millrace MILLRACE_MASENKO_ADDR=127.0.0.1:4000 millrace

  # write a configuration file and use it
  millrace config example > millrace.toml
  millrace --config millrace.toml`

func newRoot(p Process) *cobra.Command {
	root := newServeCommand(p)
	root.Use = "millrace"
	root.Short = "A durable job server that speaks the protocols of existing work queues"
	root.Long = rootLong
	root.Example = rootExample
	root.SilenceErrors = true // Main prints them
	root.SilenceUsage = true  // a page of flags would bury the message
	root.Version = buildVersion().String()
	root.SetVersionTemplate("millrace {{.Version}}\n")
	root.SetFlagErrorFunc(flagError)
	addWrapped()
	root.SetUsageTemplate(flagUsages.ReplaceAllString(root.UsageTemplate(), "(wrapped .$1)"))
	root.CompletionOptions.DisableDefaultCmd = true // ours has examples
	hideSettings(root)
	for _, g := range []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{"run", "Run the server:", []*cobra.Command{
			newServeCommand(p), newDemoCommand(p), newConfigCommand(p),
			newHealthCommand(p),
		}},
		{"jobs", "Work with jobs:", []*cobra.Command{
			newPushCommand(p), newFetchCommand(p), newJobCommand(p),
			newQueueCommand(p), newBatchCommand(p), newCronCommand(p),
		}},
		{"operate", "Operate:", []*cobra.Command{
			newStatusCommand(p), newTopCommand(p), newFailuresCommand(p), newTypesCommand(p), newActivityCommand(p),
			newWorkerCommand(p), newBulkCommand(p), newTokenCommand(p), newClusterCommand(p),
			newBackupCommand(p), newRestoreCommand(p), newCheckCommand(p),
		}},
		{"migrate", "Migrate:", []*cobra.Command{
			newExportCommand(p), newImportCommand(p), newReplayCommand(p), newMigrateCommand(p),
			newFaktoryServerCommand(p), newLmstfyServerCommand(p), newWorkqServerCommand(p),
			newBeanstalkdServerCommand(p),
		}},
		{"tools", "Tools:", []*cobra.Command{
			newBenchCommand(p), newCompletionCommand(), newManCommand(),
			newVersionCommand(),
		}},
	} {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, c := range g.commands {
			c.GroupID = g.id
		}
		root.AddCommand(g.commands...)
	}
	root.SetHelpCommandGroupID("tools")
	return root
}

// helpColumns is how wide the help is: the flags of cobra's own template are lines of any length.
const helpColumns = 120

// addWrapped adds to what all templates of cobra know. It is done once, because several roots may be made at a time.
var addWrapped = sync.OnceFunc(func() {
	cobra.AddTemplateFunc("wrapped", func(f *pflag.FlagSet) string { return f.FlagUsagesWrapped(helpColumns) })
})

var flagUsages = regexp.MustCompile(`\.(\w+Flags)\.FlagUsages`)

// flagError adds a suggestion to the error of an unknown flag.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return fmt.Errorf("%w%s", err, didYouMean(unknown.GetSpecifiedName(), "--", names))
}
