package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/internal/api"
	"millrace/internal/apiclient"
)

// showSlots says how far the limits of a queue are used.
func showSlots(l *api.LimitUse) string {
	text := count(l.SlotsUsed) + " used"
	if l.SlotsFree != nil {
		text += ", " + count(*l.SlotsFree) + " free"
	}
	return text
}

// showLimits says what limits there are.
func showLimits(l *api.Limits) string {
	var parts []string
	if l.Concurrency > 0 {
		parts = append(parts, fmt.Sprintf("concurrency %d", l.Concurrency))
	}
	if l.Worker > 0 {
		parts = append(parts, fmt.Sprintf("worker %d", l.Worker))
	}
	if l.SlotSeconds > 0 {
		parts = append(parts, "slots free after "+span(time.Duration(l.SlotSeconds*float64(time.Second))))
	}
	if l.Rate != "" {
		parts = append(parts, fmt.Sprintf("rate %s, burst %d", l.Rate, l.Burst))
	}
	if l.GroupConcurrency > 0 {
		parts = append(parts, fmt.Sprintf("group concurrency %d", l.GroupConcurrency))
	}
	if l.GroupRate != "" {
		parts = append(parts, fmt.Sprintf("group rate %s, group burst %d", l.GroupRate, l.GroupBurst))
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

func newQueueLimit(p Process) *cobra.Command {
	q := newOnQueues("limit QUEUE...", "Limit how many jobs of queues run, and how fast they are given out",
		`Limit how many jobs of queues run at a time (in all, by one worker or of one group), and how fast
they are given out. Only the limits that you name change; 0 removes one. Without any, the command
shows the limits. Changes take effect at once. A queue that does not exist is created, so that it is
limited from its first job on, and the command says so.`,
		`  millrace queue limit mails --concurrency 4
  millrace queue limit mails --rate 100/s --burst 20
  millrace queue limit mails --group-concurrency 2 --group-rate 10/s
  millrace queue limit mails --concurrency 0`)
	flags := q.Flags()
	concurrency := flags.Uint32("concurrency", 0, "how many jobs may run at a time")
	worker := flags.Uint32("worker", 0, "how many of them one worker may have")
	slot := flags.Duration("slot-for", 0, "free the slot of a job after this time, although it may still run")
	rate := flags.String("rate", "", "how many jobs are given out in a time, such as 100/s, 5/m or 1/90s")
	burst := flags.Uint32("burst", 0, "how many of them at once after a quiet time (default 1)")
	groupConcurrency := flags.Uint32("group-concurrency", 0,
		"how many jobs of one group may run at a time (default 1, or any number in a fair queue)")
	groupRate := flags.String("group-rate", "", "how many jobs of one group are given out in a time")
	groupBurst := flags.Uint32("group-burst", 0, "how many of them at once after a quiet time (default 1)")
	return q.do(p, func(ctx context.Context, c *apiclient.Client, name string) (any, string, error) {
		for flag, text := range map[string]string{"--rate": *rate, "--group-rate": *groupRate} {
			if _, _, err := api.ParseRate(text); err != nil {
				return nil, "", ofFlag(flag, err)
			}
		}
		l, err := c.Limits(ctx, *q.namespace, name)
		made := ""
		if problem, ok := errors.AsType[*api.Problem](err); ok && problem.Status == http.StatusNotFound {
			err = nil // setting a limit makes the queue
			made = " There was no such queue: it is new, and has no jobs yet."
		}
		if err != nil {
			return nil, "", err
		}
		changed := false
		for flag, set := range map[string]func(){
			"concurrency": func() { l.Concurrency = *concurrency },
			"worker":      func() { l.Worker = *worker },
			"slot-for":    func() { l.SlotSeconds = slot.Seconds() },
			"rate":        func() { l.Rate = *rate },
			"burst":       func() { l.Burst = *burst },

			"group-concurrency": func() { l.GroupConcurrency = *groupConcurrency },
			"group-rate":        func() { l.GroupRate = *groupRate },
			"group-burst":       func() { l.GroupBurst = *groupBurst },
		} {
			if flags.Changed(flag) {
				changed = true
				set()
			}
		}
		var info api.Queue
		if changed {
			info, err = c.SetLimits(ctx, *q.namespace, name, l)
		} else {
			info, err = c.Queue(ctx, *q.namespace, name)
		}
		if err != nil {
			return nil, "", err
		}
		now := api.Limits{}
		if info.Limits != nil {
			now = info.Limits.Limits
		}
		return info, printable(name) + ": " + showLimits(&now) + "." + made, nil
	})
}
