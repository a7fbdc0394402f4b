package cli

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/internal/config"
	"millrace/internal/server"
)

func newClusterInit(p Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Turn the data directory of a stopped server into the first node of a cluster",
		Long: `Turn the data directory of a stopped server into that of the first node of a new cluster. Nothing is
copied, and all jobs stay. With an empty directory the cluster has no jobs. Afterwards start the
server with the same cluster.node and cluster.peers, and add other nodes with "millrace cluster
join".

If it is interrupted, run it again: it goes on where it was.`,
		Example: `  millrace cluster init --data-dir /var/lib/millrace/data --cluster-node a \
    --cluster-peers a=jobs-a.example.com:7421`,
		Args: noArgs,
	}
	s := addSettings(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := s.load(p)
		if err != nil {
			return err
		}
		id, err := server.InitCluster(cfg)
		if err != nil {
			return fail(err)
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is the data of node %s, the first of cluster %s.\n", cfg.Data.Dir,
			cfg.Cluster.Node, id)
		return fail(err)
	}
	return cmd
}

// addDir gives a command that works on a stopped server its argument, and returns what finds the directory: the one
// that is named, or that of the configuration.
func addDir(cmd *cobra.Command, p Process) func(args []string) (string, error) {
	file := cmd.Flags().StringP("config", "c", "", "TOML file to find data.dir in ("+config.FileVariable+")")
	must(cmd.MarkFlagFilename("config", "toml"))
	cmd.Args = atMostOneDir
	cmd.ValidArgsFunction = completeDirs
	return func(args []string) (string, error) {
		if len(args) == 1 {
			return args[0], nil
		}
		cfg, err := p.serverConfig(*file)
		if err != nil {
			return "", err
		}
		return cfg.Data.Dir, nil
	}
}

func newClusterLeave(p Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "leave [DIR]",
		Short: "Turn the data directory of the last node of a cluster into that of a single server",
		Long: `Turn the data directory of the last node of a cluster into that of a single server. Nothing is
copied, and all jobs stay. First take the other nodes out with "millrace cluster remove", and stop
the last one. DIR is data.dir of the configuration if it is not given. Afterwards start the server
without cluster.node and cluster.peers.

If it is interrupted, run it again: it goes on where it was.`,
		Example: `  millrace cluster leave --to-single /var/lib/millrace/data`,
	}
	find := addDir(cmd, p)
	single := cmd.Flags().Bool("to-single", false, "say that it becomes a single server (required)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !*single {
			return errors.New("add --to-single. To take one node of several out, use \"millrace cluster remove\"")
		}
		dir, err := find(args)
		if err != nil {
			return err
		}
		if err := server.LeaveCluster(dir); err != nil {
			return fail(err)
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is the data of a server of its own.\n", dir)
		return fail(err)
	}
	return cmd
}

func newClusterRecover(p Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "recover [DIR]",
		Short: "Go on with the data of one stopped node after the majority is lost for good",
		Long: `Make one node the only node of a new cluster, with everything that it has. Use it when a majority of
the nodes is lost for good. What was acknowledged and is only on the lost nodes is lost with them.
Stop all nodes that are left.

Without --yes the command changes nothing and says how far the log of this node goes. Look at all
nodes that are left, and recover the one with the highest term; among those with the same term, the
one with the highest index. Then start it, empty the directories of the others, and add them with
"millrace cluster join". The new cluster has another identity: nodes of the old one that come back
cannot take part in it.

DIR is data.dir of the configuration if it is not given.`,
		Example: `  millrace cluster recover /var/lib/millrace/data
  millrace cluster recover --yes /var/lib/millrace/data`,
	}
	find := addDir(cmd, p)
	asJSON := cmd.Flags().Bool("json", false, "print a JSON object")
	yes := cmd.Flags().BoolP("yes", "y", false, "do it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		dir, err := find(args)
		if err != nil {
			return err
		}
		s, err := server.Inspect(dir)
		if err != nil {
			return fail(err)
		}
		out := cmd.OutOrStdout()
		if *asJSON {
			err = printLine(out, s)
		} else {
			_, err = fmt.Fprint(out, survivor(&s, *yes))
		}
		if err != nil || !*yes {
			return fail(err)
		}
		id, err := server.Recover(dir)
		if err == nil && !*asJSON {
			_, err = fmt.Fprintf(out, "Recovered: node %s is the only one of cluster %s. Start it, and add others "+
				"with \"millrace cluster join\".\n", s.Node, id)
		}
		return fail(err)
	}
	return cmd
}

// survivor says what recovering a node keeps and loses and, unless that is decided, how to decide.
func survivor(s *server.Survivor, decided bool) string {
	at := "at a time that is not known"
	if !s.At.IsZero() {
		at = s.At.UTC().Format(time.RFC3339Nano)
	}
	text := fmt.Sprintf(`node %s, of a cluster of %s
last entry: term %d, index %d, %s

Everything up to this entry is kept. What was acknowledged later, and is on the other nodes only, is lost.
`, s.Node, strings.Join(s.Nodes, ", "), s.Term, s.Index, at)
	if !decided {
		text += `Compare with the other nodes that are left: recover the one with the highest term, and of those the
one with the highest index. Add --yes to recover this one.
`
	}
	return text
}
