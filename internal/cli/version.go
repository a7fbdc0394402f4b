package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// Set by the linker: -X millrace/internal/cli.version=1.2.3, and so on.
var (
	version string
	commit  string
	date    string
)

// build describes this binary.
type build struct{ number, commit, date string }

// buildVersion returns what the linker was told, else what the go tool noted.
func buildVersion() build {
	b := build{number: version, commit: commit, date: date}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return b.orElse(info)
}

func (b build) orElse(info *debug.BuildInfo) build {
	if b.number == "" && info.Main.Version != "(devel)" {
		b.number = info.Main.Version
	}
	if b.number == "" {
		b.number = "dev"
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && b.commit == "":
			b.commit = s.Value
		case s.Key == "vcs.time" && b.date == "":
			b.date = s.Value
		}
	}
	return b
}

// String returns the version with what else is known about the build.
func (b build) String() string {
	parts := []string{runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
	if b.date != "" {
		parts = append([]string{"built " + b.date}, parts...)
	}
	if b.commit != "" {
		parts = append([]string{"commit " + b.commit}, parts...)
	}
	return fmt.Sprintf("%s (%s)", b.number, strings.Join(parts, ", "))
}

func newVersionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Example: `  millrace version
  millrace version --json`,
		Args: noArgs,
	}
	asJSON := cmd.Flags().Bool("json", false, "print a JSON object")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		b := buildVersion()
		if *asJSON {
			return fail(printJSON(cmd.OutOrStdout(), b.facts()))
		}
		_, err := fmt.Fprintln(cmd.OutOrStdout(), "millrace", b)
		return fail(err)
	}
	return cmd
}

// buildFacts is the build as JSON shows it.
type buildFacts struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Date    string `json:"date,omitempty"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

func (b build) facts() buildFacts {
	return buildFacts{b.number, b.commit, b.date, runtime.Version(), runtime.GOOS, runtime.GOARCH}
}

// printJSON prints a value for programs to read.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
