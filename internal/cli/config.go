package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"millrace/internal/config"
	"millrace/internal/server"
)

func newConfigCommand(p Process) *cobra.Command {
	return group("config", "Show, check and explain the configuration", `  millrace config ls
  millrace config validate --config millrace.toml
  millrace config example > millrace.toml`,
		newConfigPrint(p), newConfigValidate(p), newConfigExample(), newConfigSchema())
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
	t := newTable(&b, "KEY", "VALUE", "SOURCE")
	for _, s := range cfg.Settings() {
		t.row(s.Key.Name, s.Text(), s.Source.String())
	}
	if err := t.flush(); err != nil {
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
