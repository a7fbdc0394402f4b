package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"millrace/internal/config"
	"millrace/internal/server"
)

func newConfigCommand(p Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show, check and explain the configuration",
		Example: `  millrace config ls
  millrace config validate --config millrace.toml
  millrace config example > millrace.toml`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newConfigPrint(p), newConfigValidate(p), newConfigExample(), newConfigSchema())
	return cmd
}

func newConfigPrint(p Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"print", "list"},
		Short:   "Print every key, its value, and where that came from",
		Long: `Print every key, its value, and where that came from. It takes all flags of "millrace serve", and
shows what a server that is started with the same ones would use.`,
		Example: `  millrace config ls
  MILLRACE_DATA_DIR=/data millrace config ls --config millrace.toml --log-level debug`,
		Args: noArgs,
	}
	s := addSettings(cmd)
	hideSettings(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := s.load(p)
		if err != nil {
			return err
		}
		return fail(printSettings(cmd.OutOrStdout(), cfg))
	}
	return cmd
}

func printSettings(w io.Writer, cfg *config.Config) error {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "KEY\tVALUE\tSOURCE") // a Builder takes everything
	for _, s := range cfg.Settings() {
		text := s.Text()
		if text == "" {
			text = "-"
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\n", s.Key.Name, text, s.Source)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, n := range cfg.Notices() {
		fmt.Fprintf(&b, "\nnote: %s: %s\n", n.Variable, n.Text())
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func newConfigValidate(p Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "validate",
		Short: "Check the configuration without starting the server",
		Long: `Check the file, the environment and the flags that a server started in the same way would
use. It takes all flags of "millrace serve". All problems are printed at once; the exit
status is then 2.`,
		Example: `  millrace config validate --config millrace.toml`,
		Args:    noArgs,
	}
	s := addSettings(cmd)
	hideSettings(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := s.load(p)
		if err != nil {
			return err
		}
		given := 0
		for _, set := range cfg.Settings() {
			if set.Source.Layer != config.LayerDefault {
				given++
			}
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "The configuration is valid: %d of %d keys are set.\n", given,
			len(cfg.Settings()))
		return fail(err)
	}
	return cmd
}

func newConfigExample() *cobra.Command {
	return &cobra.Command{
		Use:     "example",
		Short:   "Print a configuration file with every key and its default",
		Example: `  millrace config example > millrace.toml`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return fail(server.Settings().WriteExample(cmd.OutOrStdout()))
		},
	}
}

func newConfigSchema() *cobra.Command {
	return &cobra.Command{
		Use:     "schema",
		Short:   "Print a JSON Schema of the configuration file",
		Long:    `Print a JSON Schema of the configuration file, with which editors complete and check it.`,
		Example: `  millrace config schema > millrace.schema.json`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return fail(server.Settings().WriteSchema(cmd.OutOrStdout()))
		},
	}
}
