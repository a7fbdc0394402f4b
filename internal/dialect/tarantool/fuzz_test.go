package tarantool

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"testing"

	"millrace/internal/dialect"
	"millrace/internal/dialect/tarantool/iproto"
	"millrace/internal/dialect/tarantool/tarantooltest"
	"millrace/internal/engine"
	"millrace/internal/store/memstore"
	"millrace/internal/testkit"
)

// FuzzPacket sends bytes to a server and hangs up. Whatever they are, all it answers
// are well-formed packets, and then it closes.
func FuzzPacket(f *testing.F) {
	for _, packets := range [][][]byte{
		{tarantooltest.Packet(tarantooltest.TypePing, 1, nil)},
		{
			fuzzCall(tarantooltest.TypeCall, "queue.create_tube", `"t", "utubettl", {"ttl": 5, "if_not_exists": true}`),
			fuzzCall(tarantooltest.TypeCall, "queue.tube.t:put",
				`{"a": [1, nil]}, {"utube": "x", "delay": 0.5, "pri": 3}`),
			fuzzCall(tarantooltest.TypeCall16, "queue.tube.t:take", ``),
			fuzzCall(tarantooltest.TypeCall, "queue.tube.t:ack", `0`),
		},
		{
			fuzzCall(tarantooltest.TypeCall, "queue.identify", `"0123456789abcdef"`),
			fuzzCall(tarantooltest.TypeCall, "queue.cfg", `{"ttr": 1}`),
			fuzzCall(tarantooltest.TypeCall, "queue.stats", ``),
		},
		{
			fuzzCall(tarantooltest.TypeCall, "queue.put", `0, "t", 0, 60, 10, 5, "x"`),
			fuzzCall(tarantooltest.TypeCall16, "queue.take", `0, "t", 1`),
			fuzzCall(tarantooltest.TypeCall, "queue.statistics", ``),
		},
		{tarantooltest.Packet(tarantooltest.TypeEval, 1,
			tarantooltest.MustEncode(`{39: "return queue.tube.t:take(0)", 33: []}`))},
		{tarantooltest.Packet(tarantooltest.TypeAuth, 1,
			tarantooltest.MustEncode(`{35: "bob", 33: ["chap-sha1", "01234567890123456789"]}`))},
		{tarantooltest.Packet(tarantooltest.TypeWatch, 1, tarantooltest.MustEncode(`{87: "box.shutdown"}`))},
		{tarantooltest.Packet(tarantooltest.TypeSelect, 1, tarantooltest.MustEncode(`{16: 281}`))},
		{[]byte("\xa5hello"), []byte("\xcf\xff\xff\xff\xff\xff\xff\xff\xff"), bytes.Repeat([]byte{0x91}, 300)},
	} {
		f.Add(bytes.Join(packets, nil))
	}
	e, err := engine.Open(engine.Options{Store: memstore.New()})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		if err := e.Close(); err != nil {
			f.Error(err)
		}
	})
	l := testkit.Listen(1 << 20)
	d := New(Options{
		Options: dialect.Options{Engine: e}, MaxPacket: 1 << 16,
		Users: map[string]string{"bob": "secret"},
	})
	served, ctx := make(chan error, 1), f.Context()
	go func() { served <- d.Serve(ctx, l) }()
	f.Cleanup(func() {
		if err := <-served; err != nil {
			f.Error(err)
		}
	})
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := l.Dial()
		if err != nil {
			t.Fatalf("dial: %v", err)
		}
		defer func() { _ = c.Close() }() // it cannot fail
		go func() {
			_, _ = c.Write(data) // the server may have closed
			_ = c.CloseWrite()   // it cannot fail
		}()
		r := bufio.NewReader(c)
		if _, err := r.Discard(tarantooltest.GreetingSize); err != nil {
			t.Fatalf("greeting: %v", err)
		}
		for {
			p, err := tarantooltest.ReadReply(r)
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Err(); err != nil {
				if _, ok := errors.AsType[*tarantooltest.Error](err); !ok {
					t.Fatal(err)
				}
			}
		}
	})
}

func fuzzCall(kind uint64, name, args string) []byte {
	raw := tarantooltest.MustEncode(args)
	return tarantooltest.CallPacket(kind, 1, name, iproto.CountValues(raw), raw)
}
