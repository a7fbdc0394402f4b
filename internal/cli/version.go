package cli

import (
	"fmt"
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
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: `  millrace version`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "millrace", buildVersion())
			return fail(err)
		},
	}
}
