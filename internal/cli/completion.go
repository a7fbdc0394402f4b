package cli

import (
	"io"

	"github.com/spf13/cobra"
)

// shell is one for which cobra can write completions.
type shell struct {
	name    string
	example string
	write   func(root *cobra.Command, w io.Writer) error
}

var shells = []shell{
	{
		"bash", `  # for this session
  source <(millrace completion bash)

  # for all sessions
  millrace completion bash > /etc/bash_completion.d/millrace`,
		func(root *cobra.Command, w io.Writer) error { return root.GenBashCompletionV2(w, true) },
	},
	{
		"zsh", `  # for all sessions, if compinit runs in ~/.zshrc
  millrace completion zsh > "${fpath[1]}/_millrace"`,
		(*cobra.Command).GenZshCompletion,
	},
	{
		"fish", `  # for this session
  millrace completion fish | source

  # for all sessions
  millrace completion fish > ~/.config/fish/completions/millrace.fish`,
		func(root *cobra.Command, w io.Writer) error { return root.GenFishCompletion(w, true) },
	},
	{
		"powershell", `  # for this session; put the line into $PROFILE for all
  millrace completion powershell | Out-String | Invoke-Expression`,
		(*cobra.Command).GenPowerShellCompletionWithDesc,
	},
}

func newCompletionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "completion",
		Short: "Generate a shell completion script",
		Example: `  source <(millrace completion bash)
  millrace completion zsh > "${fpath[1]}/_millrace"`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, s := range shells {
		cmd.AddCommand(&cobra.Command{
			Use:     s.name,
			Short:   "Print the script for " + s.name,
			Example: s.example,
			Args:    noArgs,
			RunE:    func(cmd *cobra.Command, _ []string) error { return fail(s.write(cmd.Root(), cmd.OutOrStdout())) },
		})
	}
	return cmd
}
