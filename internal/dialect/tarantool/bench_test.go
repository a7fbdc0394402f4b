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

// BenchmarkPipelinedPut measures puts of both sets of procedures, 64 in one write, client and engine included.
func BenchmarkPipelinedPut(b *testing.B) {
	data := msgp.AppendString(nil, "a hundred bytes or so are what most tasks carry, and so does this one, to be "+
		"like them in that")
	legacy := append(tarantooltest.MustEncode(`0, "t", 0, 60, 10, 5`), data...)
	b.Run("queue", func(b *testing.B) { benchmarkPut(b, "queue.tube.t:put", data) })
	b.Run("legacy", func(b *testing.B) { benchmarkPut(b, "queue.put", legacy) })
}

func benchmarkPut(b *testing.B, procedure string, args []byte) {
	b.Helper()
	c := serveBench(b)
	b.ReportAllocs()
	for sent := 0; b.Loop(); {
		if _, err := c.Queue(tarantooltest.TypeCall, procedure, args); err != nil {
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
