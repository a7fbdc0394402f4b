package tarantool

import (
	"testing"

	"millrace/internal/dialect"
	"millrace/internal/dialect/tarantool/iproto"
	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/store/memstore"
	"millrace/internal/testkit"
)

// BenchmarkCall measures what a call costs besides the engine: the packet is read, its
// command is made, and a result is rendered.
func BenchmarkCall(b *testing.B) {
	e, err := engine.Open(engine.Options{Store: memstore.New()})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := e.Close(); err != nil {
			b.Error(err)
		}
	}()
	e.NewCaller().Do(b.Context(), &job.Configure{Namespace: "default", Queue: "tube", Settings: job.Settings{Serials: true}})
	d := New(Options{Options: dialect.Options{Engine: e}})
	task := job.Job{Serial: 5, Queue: "tube", State: job.Leased, Body: []byte("some data"), BodyKind: job.BodyBytes, Flags: job.FlagSerial}
	for _, c := range []struct {
		name, procedure, args string
		res                   job.Result
	}{
		{"put", "queue.tube.tube:put", `"some data", {"pri": 5, "ttl": 60}`, job.Result{Serial: 5, HasSerial: true, State: job.Ready}},
		{"put map", "queue.tube.tube:put", `{"some": "data", "more": [1, 2, 3]}`, job.Result{Serial: 5, HasSerial: true, State: job.Ready}},
		{"take", "queue.tube.tube:take", `0`, job.Result{Jobs: []job.Job{task}}},
		{"ack", "queue.tube.tube:ack", `5`, job.Result{Jobs: []job.Job{task}}},
		{"release", "queue.tube.tube:release", `5, {"delay": 1}`, job.Result{Jobs: []job.Job{task}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			_, server := testkit.Pipe(1 << 10)
			w := newIProto(d)
			conn := &conn{Conn: dialect.NewConn(server, dialect.Limits{}), d: d, wire: w}
			packet := fuzzCall(iproto.TypeCall, c.procedure, c.args)
			b.ReportAllocs()
			for b.Loop() {
				w.packet(conn, packet)
				u := conn.gathering
				if len(u.calls) != 1 {
					b.Fatalf("%d commands", len(u.calls))
				}
				conn.finish(u.calls[0], &c.res)
				conn.SetOut(conn.Out()[:0])
				conn.unsent = conn.unsent[:0]
				conn.gathering = nil
				u.release()
			}
		})
	}
}
