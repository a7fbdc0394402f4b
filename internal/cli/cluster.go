package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"millrace/internal/api"
	"millrace/internal/apiclient"
)

func newClusterCommand(p Process) *cobra.Command {
	return group("cluster", "Show a cluster, have another node lead, add and remove nodes",
		`  millrace cluster status --api http://jobs-b.example.com:7420
  millrace cluster transfer
  millrace cluster join d=jobs-d.example.com:7421
  millrace cluster remove a`,
		newClusterStatus(p), newClusterTransfer(p), newClusterJoin(p), newClusterRemove(p),
		newClusterInit(p), newClusterLeave(p), newClusterRecover(p))
}

func newClusterStatus(p Process) *cobra.Command {
	return asking(p, &cobra.Command{
		Use:   "status",
		Short: "Show the nodes, which of them leads, and how far the others are behind",
		Long:  `Show the nodes of a cluster as one of them sees the others. Every node can be asked.`,
		Example: `  millrace cluster status
  millrace cluster status --json | jq -r .leader`,
		Args: noArgs,
	}, func(cmd *cobra.Command, c *apiclient.Client, asJSON bool, _ []string) error {
		st, err := c.Cluster(cmd.Context())
		if err != nil {
			return err
		}
		return printCluster(cmd, st, asJSON)
	})
}

const (
	transferPatience = 15 * time.Second
	transferPoll     = 100 * time.Millisecond
)

func newClusterTransfer(p Process) *cobra.Command {
	var ifLeader bool
	cmd := asking(p, &cobra.Command{
		Use:   "transfer",
		Short: "Have another node lead, for example before this one is stopped",
		Long: `Have another node lead. Clients are cut off and find the new leader when they connect again, at any
node. Every node can be asked.`,
		Example: `  millrace cluster transfer
  millrace cluster transfer --if-leader`,
		Args: noArgs,
	}, func(cmd *cobra.Command, c *apiclient.Client, asJSON bool, _ []string) error {
		before, err := c.Cluster(cmd.Context())
		if err != nil {
			return err
		}
		if ifLeader && before.Leader != before.Node {
			return printCluster(cmd, before, asJSON)
		}
		asked, lost := c.Transfer(cmd.Context())
		switch {
		case lost == nil:
			before = asked
		case !cutOff(lost):
			return lost
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), transferPatience)
		defer cancel()
		for {
			st, err := c.Cluster(ctx)
			if err == nil && st.Leader != "" && st.Leader != before.Leader {
				return printCluster(cmd, st, asJSON)
			}
			select {
			case <-time.After(transferPoll):
			case <-ctx.Done():
				if lost != nil {
					return lost
				}
				return fmt.Errorf("no other node leads after %s: look at the status, and at the log of node %s",
					transferPatience, before.Leader)
			}
		}
	})
	cmd.Flags().BoolVar(&ifLeader, "if-leader", false, "do nothing unless the node that is asked leads")
	return cmd
}

// cutOff reports whether the answer to a request may have been cut off with the leadership of a node. Then what was
// asked for may have been done.
func cutOff(err error) bool {
	if _, ok := errors.AsType[*apiclient.Unreachable](err); ok {
		return true
	}
	p, ok := errors.AsType[*api.Problem](err)
	return ok && p.Status == http.StatusServiceUnavailable
}

// printCluster prints what a node knows about its cluster.
func printCluster(cmd *cobra.Command, st api.ClusterStatus, asJSON bool) error {
	out := cmd.OutOrStdout()
	if asJSON {
		return printLine(out, st)
	}
	format := ""
	if st.Format > 0 {
		format = fmt.Sprintf(", format %d", st.Format)
	}
	if _, err := fmt.Fprintf(out, "node %s, leader %s, term %d%s\n\n", st.Node, orElse(st.Leader, "none"), st.Term,
		format); err != nil {
		return err
	}
	t := newTable(out, "NAME", "ROLE", "REACHABLE", "BEHIND", "VERSION", "FORMAT", "ADDRESS", "ABOUT")
	for _, n := range st.Nodes {
		behind := "-"
		if n.LagEntries > 0 && n.Reachable {
			behind = fmt.Sprintf("%d entries, %s", n.LagEntries,
				time.Duration(n.LagSeconds*float64(time.Second)).Round(time.Second))
		}
		t.row(n.Name, n.Role, strconv.FormatBool(n.Reachable), behind, n.Version, formatOf(n.Format), n.Addr, n.About)
	}
	return t.flush()
}

// formatOf shows a format of records.
func formatOf(n uint64) string {
	if n == 0 {
		return "-"
	}
	return count(n)
}
