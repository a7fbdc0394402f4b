package cli

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"millrace/internal/config"
	"millrace/internal/demo"
	"millrace/internal/server"
)

func newDemoCommand(p Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Start a server with the traffic of a small shop, to look around",
		Long: `Start a server on loopback with the traffic of a small shop, to look around: five queues (mail,
invoices, images, reports and webhooks), workers of four protocols, a mail server that did not
answer for ten minutes, retries, dead and buried jobs, a batch, schedules and limits. The command
first lives through the last hour, which takes up to a minute. Then the shop goes on until you stop
the command. All jobs come over the wire, and all figures are counted by the server.

Without --data-dir the data is in a temporary directory, which is removed at the end. Configuration
files and the environment are not read.`,
		Example: `  millrace demo
  millrace demo --web-addr 127.0.0.1:8080 --past 10m`,
		Args: noArgs,
	}
	dir := cmd.Flags().String("data-dir", "", "directory of the data, which must be empty or new")
	addr := cmd.Flags().String("web-addr", "127.0.0.1:7420", "address of the pages")
	past := cmd.Flags().Duration("past", time.Hour, "how much of the past is staged")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *dir == "" {
			made, err := os.MkdirTemp("", "millrace-demo-")
			if err != nil {
				return fail(err)
			}
			defer os.RemoveAll(made) //nolint:errcheck // a temporary directory
			*dir = made
		} else if found, err := os.ReadDir(*dir); err == nil && len(found) > 0 {
			return fmt.Errorf("--data-dir: %s is not empty: the demo begins in the past, and what is there "+
				"may be younger", *dir)
		}
		if *past < 0 {
			return fmt.Errorf("--past: %s is not in the past", *past)
		}
		load := func() (*config.Config, error) {
			return server.Settings().Load(config.Input{Flags: demoSettings(*dir, *addr)})
		}
		cfg, err := load()
		if err != nil {
			return err
		}
		clock := demo.NewClock(*past)
		return p.run(cmd.Context(), cfg, newLogger(p.Stderr, cfg.Log), load, server.Options{
			Now: clock.Now,
			Stage: func(ctx context.Context, stage server.Stage) error {
				if err := demo.Run(ctx, demo.Options{
					Addrs: stage.Addrs, Clock: clock, Step: stage.Step,
					Out: p.Stdout,
				}); err != nil {
					return fmt.Errorf("the demo has ended: %w", err)
				}
				return nil
			},
		})
	}
	return cmd
}

// demoSettings are the settings of the server of a demo: ports of protocols are those that are free.
func demoSettings(dir, web string) map[string]string {
	set := map[string]string{"data.dir": dir, "web.addr": web, "store.durability": "interval", "log.level": "warn"}
	for _, k := range server.Settings().Keys() {
		if k.Name != "web.addr" && k.Kind == config.KindAddresses && k.Default != "" && k.Default != "off" {
			set[k.Name] = "127.0.0.1:0"
		}
	}
	return set
}
