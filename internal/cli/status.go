package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/internal/api"
	"millrace/internal/apiclient"
)

// status is what "status" prints as JSON.
type status struct {
	Server  api.ServerInfo `json:"server"`
	Live    api.Sample     `json:"live"`
	Storage api.Storage    `json:"storage"`
}

func newStatusCommand(p Process) *cobra.Command {
	return asking(p, &cobra.Command{
		Use:   "status",
		Short: "Show the state of a running server on one screen",
		Long: `Show a running server on one screen: whether it is ready, what needs attention, how many jobs it has
in each state, rates per second, the busiest queues, and the disk. "millrace top" shows the same
live.`,
		Example: "  millrace status\n  millrace status --json | jq .live.counts.dead",
		Args:    noArgs,
	}, func(cmd *cobra.Command, c *apiclient.Client, asJSON bool, _ []string) error {
		var s status
		var err error
		if s.Server, err = c.Server(cmd.Context()); err != nil {
			return err
		}
		if s.Live, err = c.Live(cmd.Context()); err != nil {
			return err
		}
		if s.Storage, err = c.Storage(cmd.Context()); err != nil {
			return err
		}
		if asJSON {
			return fail(printJSON(cmd.OutOrStdout(), s))
		}
		return fail(printStatus(cmd, c.URL(), &s))
	})
}

// statusQueues is how many of the busiest queues are shown.
const statusQueues = 5

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Microsecond)
}

func printStatus(cmd *cobra.Command, url string, s *status) error {
	ready := "ready"
	if !s.Server.Ready {
		ready = "NOT READY: \"millrace health --verbose\" says why"
	}
	t := newTable(cmd.OutOrStdout())
	t.row("server", fmt.Sprintf("millrace %s at %s, up %s, %s", s.Server.Version, url,
		span(seconds(s.Server.UptimeSeconds)), ready))
	for i := range s.Live.Concerns {
		t.row("attention", s.Live.Concerns[i].About)
	}
	var jobs []string
	for _, st := range api.ShownStates() {
		jobs = append(jobs, count(s.Live.Counts[st])+" "+st)
	}
	t.row("jobs", strings.Join(jobs, ", "))
	r := &s.Live.Rates
	t.row("per second", fmt.Sprintf("%.1f pushed, %.1f fetched, %.1f acked, %.1f failed", r.Pushed, r.Fetched, r.Acked,
		r.Failed))
	if w := s.Live.Wait; w != nil {
		t.row("waiting time", fmt.Sprintf("half of the jobs up to %s, 95 of 100 up to %s", seconds(w.P50),
			seconds(w.P95)))
	}
	t.row("clients", plural(s.Live.Waiting, "worker")+" waiting for jobs")
	disk := sizeText(s.Storage.DiskBytes) + " used"
	if s.Storage.FreeBytes != nil {
		disk += ", " + sizeText(*s.Storage.FreeBytes) + " free"
	}
	if s.Storage.NoSpace {
		disk += ": TOO LITTLE, pushes are refused"
	}
	t.row("disk", disk+", durability "+s.Storage.Durability)
	busy := s.Live.Busiest[:min(len(s.Live.Busiest), statusQueues)]
	t.row("queues", strconv.Itoa(s.Live.Queues))
	for i := range busy {
		q := &busy[i]
		t.row(" ", fmt.Sprintf("%s: %d ready, %d running, %.1f/s pushed, %.1f/s acked", q.Name, q.Ready, q.Running,
			q.Rates.Pushed, q.Rates.Acked))
	}
	return t.flush()
}
