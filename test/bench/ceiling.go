package main

import (
	"context"
	"net"
	"os"

	"millrace/internal/bench"
)

// runCeiling serves a protocol until ctx ends with a server that does nothing.
func runCeiling(ctx context.Context, p *bench.Protocol) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _ = l.Close() }) // ends what follows
	report{os.Stdout}.printf("%s %s", p.Name, l.Addr())
	return p.ServeNothing(l, bench.Nothing{Body: payload})
}
