package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"millrace/internal/api"
	"millrace/internal/apiclient"
)

// showFairness says whether the groups of a queue take turns.
func showFairness(f *api.Fairness) string {
	if f == nil {
		return "off"
	}
	parts := []string{"on"}
	for _, group := range slices.Sorted(maps.Keys(f.Weights)) {
		parts = append(parts, fmt.Sprintf("weight %s=%d", printable(group), f.Weights[group]))
	}
	return strings.Join(parts, ", ")
}

func newQueueFair(p Process) *cobra.Command {
	q := newOnQueues("fair QUEUE... on|off", "Have the groups of queues take turns",
		`Have the groups of queues take turns, so that one with very many jobs does not hold up the others.
In its turn a group is given one job, or as many as its weight says. The weights that you give
replace the earlier ones.`,
		`  millrace queue fair mails on
  millrace queue fair mails on --weight gold=5 --weight silver=2
  millrace queue fair mails off`)
	weights := q.Flags().StringArray("weight", nil,
		"GROUP=N: how many jobs in a row the group is given; may be repeated")
	return q.doWith(p, func(args []string) ([]string, onQueue, error) {
		last := len(args) - 1
		if last < 1 || args[last] != "on" && args[last] != "off" {
			return nil, nil, errors.New("name queues, and say on or off behind them")
		}
		fair := api.Fairness{On: args[last] == "on", Weights: map[string]uint32{}}
		for _, text := range *weights {
			group, n, _ := strings.Cut(text, "=")
			weight, err := strconv.ParseUint(n, 10, 32)
			if err != nil || !fair.On {
				return nil, nil, fmt.Errorf("--weight %s: give a group and a number, such as gold=5, to a queue "+
					"that is fair", text)
			}
			fair.Weights[group] = uint32(weight)
		}
		return args[:last], func(ctx context.Context, c *apiclient.Client, name string) (any, string, error) {
			info, err := c.SetFairness(ctx, *q.namespace, name, fair)
			return info, printable(name) + ": fair " + showFairness(info.Fairness) + ".", err
		}, nil
	})
}
