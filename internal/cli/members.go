package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"millrace/internal/api"
	"millrace/internal/apiclient"
	"millrace/internal/config"
)

const (
	joinPatience = 10 * time.Minute
	joinPoll     = 500 * time.Millisecond
)

func newClusterJoin(p Process) *cobra.Command {
	var timeout time.Duration
	cmd := asking(p, &cobra.Command{
		Use:   "join [NAME=HOST:PORT]",
		Short: "Add a node to the cluster",
		Long: `Add a node to the cluster. Start it first, with an empty data directory and with cluster.node and
cluster.peers. The peers must be the node itself and at least one node of the cluster. Every node
can be asked, the new one included. Without an argument the node that is asked is added.

The node is sent all data as a learner, which counts for no majority. Once it has all data it
counts. The command waits for that. If you interrupt the command, the node goes on all the same.`,
		Example: `  millrace cluster join d=jobs-d.example.com:7421
  millrace cluster join --api http://jobs-d.example.com:7420`,
		Args: atMostOne("node"),
	}, func(cmd *cobra.Command, c *apiclient.Client, asJSON bool, args []string) error {
		m, err := joiner(cmd.Context(), c, args)
		if err != nil {
			return err
		}
		st, err := c.Join(cmd.Context(), m)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
		defer cancel()
		for {
			// A leader may change meanwhile: then there is no status for a moment.
			if err == nil && counts(st, m.Name) {
				return printCluster(cmd, st, asJSON)
			}
			select {
			case <-time.After(joinPoll):
			case <-ctx.Done():
				return fmt.Errorf("node %s does not have all data after %s: look at the status, and at the log of "+
					"that node", m.Name, timeout)
			}
			st, err = c.Cluster(ctx)
		}
	})
	cmd.Flags().DurationVar(&timeout, "timeout", joinPatience, "how long to wait until the node has all data")
	return cmd
}

// joiner returns which node is to join: the one that is named, or else the one that is asked.
func joiner(ctx context.Context, c *apiclient.Client, args []string) (m api.ClusterMember, err error) {
	if len(args) > 0 {
		p, err := config.ParsePeer(args[0])
		return api.ClusterMember{Name: p.Name, Addr: p.Addr}, err
	}
	st, err := c.Cluster(ctx)
	if err != nil {
		return m, err
	}
	i := slices.IndexFunc(st.Nodes, func(n api.ClusterNode) bool { return n.Name == st.Node })
	if i < 0 {
		return m, errors.New("the node that was asked does not tell its address: name it as NAME=HOST:PORT")
	}
	return api.ClusterMember{Name: st.Node, Addr: st.Nodes[i].Addr}, nil
}

// counts reports whether a node is a member that counts for majorities.
func counts(st api.ClusterStatus, name string) bool {
	return slices.ContainsFunc(st.Nodes, func(n api.ClusterNode) bool {
		return n.Name == name && n.Member && n.Role != api.RoleLearner
	})
}

func oneNode(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return errors.New("name the node: millrace cluster remove NAME")
	}
	return nil
}

func newClusterRemove(p Process) *cobra.Command {
	var yes *bool
	cmd := asking(p, &cobra.Command{
		Use:   "remove NAME",
		Short: "Take a node out of the cluster",
		Long: `Take a node out of the cluster, for example one whose machine is gone. It need not run. The leader
cannot be taken out: have another node lead first. Every node can be asked.

A removed node that still runs is no longer part of the cluster: stop it, or add it again with join.`,
		Example: `  millrace cluster remove a --yes`,
		Args:    oneNode,
	}, func(cmd *cobra.Command, c *apiclient.Client, asJSON bool, args []string) error {
		if err := confirm(cmd, *yes, fmt.Sprintf("Take node %s out of the cluster?", args[0])); err != nil {
			return err
		}
		st, err := c.RemoveNode(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return printCluster(cmd, st, asJSON)
	})
	yes = addYes(cmd)
	return cmd
}
