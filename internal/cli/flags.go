package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"millrace/internal/config"
	"millrace/internal/server"
)

// settings are the flags of a command that reads the configuration.
type settings struct {
	cmd  *cobra.Command
	file string
}

// addSettings gives a command a flag for every key of the configuration.
func addSettings(cmd *cobra.Command) *settings {
	s := &settings{cmd: cmd}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVarP(&s.file, "config", "c", "", "TOML file with settings ("+config.FileVariable+")")
	must(cmd.MarkFlagFilename("config", "toml"))
	for _, k := range server.Settings().Keys() {
		usage, _, _ := strings.Cut(k.Doc, ". ")
		kind := k.Kind.String()
		if k.Kind == config.KindChoice {
			kind = strings.Join(k.Choices, "|")
		}
		f := flags.VarPF(&textValue{text: k.Default, kind: kind}, k.Flag(), "", strings.TrimSuffix(usage, "."))
		if k.Kind == config.KindBool {
			f.NoOptDefVal = "true"
		}
		if k.Kind == config.KindChoice {
			completes(cmd, k.Flag(), k.Choices)
		}
	}
	return s
}

// hideSettings leaves the settings out of the help of a command, which takes them all the same.
func hideSettings(cmd *cobra.Command) {
	for _, k := range server.Settings().Keys() {
		cmd.Flags().Lookup(k.Flag()).Hidden = true
	}
}

// completes lets the shell complete the values that a flag may have.
func completes(cmd *cobra.Command, flag string, values []string) {
	must(cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)))
}

// must is for errors that a flag would cause which was not added just before.
func must(err error) {
	if err != nil {
		panic("cli: " + err.Error())
	}
}

// load reads the configuration.
func (s *settings) load(p Process) (*config.Config, error) {
	given := make(map[string]string)
	for _, k := range server.Settings().Keys() {
		if f := s.cmd.Flags().Lookup(k.Flag()); f.Changed {
			given[k.Name] = f.Value.String()
		}
	}
	return server.Settings().Load(config.Input{File: s.file, Environ: p.Environ, Flags: given})
}

// textValue is a flag that keeps its text: the configuration parses it, together
// with all the rest, so that every form of a key has the same rules.
type textValue struct{ text, kind string }

func (v *textValue) String() string { return v.text }
func (v *textValue) Type() string   { return v.kind }

func (v *textValue) Set(text string) error {
	v.text = text
	return nil
}
