package tarantool_test

import (
	"context"
	"net"
	"testing"

	"github.com/tinylib/msgp/msgp"

	"millrace/internal/dialect"
	"millrace/internal/dialect/tarantool"
	"millrace/internal/dialect/tarantool/tarantooltest"
	"millrace/internal/engine"
	"millrace/internal/store/memstore"
)

// serveBench serves the protocol on a socket, with a store in memory.
func serveBench(b *testing.B) *tarantooltest.Client {
	b.Helper()
	e, err := engine.Open(engine.Options{Store: memstore.New()})
	if err != nil {
		b.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- tarantool.New(tarantool.Options{Options: dialect.Options{Engine: e}}).Serve(ctx, l) }()
	c, err := tarantooltest.Dial(l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			b.Error(err)
		}
		if err := e.Close(); err != nil {
			b.Error(err)
		}
		_ = c.Close() // the server has
	})
	if err := c.CreateTube("t", "fifottl"); err != nil {
		b.Fatal(err)
	}
	return c
}

// BenchmarkPipelinedPut measures puts, 64 in one write, client and engine included.
func BenchmarkPipelinedPut(b *testing.B) {
	c := serveBench(b)
	data := msgp.AppendString(nil, "a hundred bytes or so are what most tasks carry, and so does this one, to be like them in that")
	b.ReportAllocs()
	sent := 0
	for i := 0; b.Loop(); i++ {
		if _, err := c.Queue(tarantooltest.TypeCall, "queue.tube.t:put", data); err != nil {
			b.Fatal(err)
		}
		if sent++; sent < 64 {
			continue
		}
		if err := c.Send(); err != nil {
			b.Fatal(err)
		}
		for ; sent > 0; sent-- {
			if p, err := c.Receive(); err != nil || p.Err() != nil {
				b.Fatal(err, p.Err())
			}
		}
	}
}
