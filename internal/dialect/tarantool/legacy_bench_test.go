package tarantool

import (
	"testing"

	"millrace/internal/dialect"
	"millrace/internal/dialect/tarantool/iproto"
	"millrace/internal/dialect/tarantool/tarantooltest"
	"millrace/internal/job"
	"millrace/internal/testkit"
)

// benchmarkLegacy measures what a call costs besides the engine: the packet is read,
// its command is made, and a result is rendered.
func benchmarkLegacy(b *testing.B, w wire, packet []byte, res job.Result) {
	b.Helper()
	_, server := testkit.Pipe(1 << 10)
	c := &conn{Conn: dialect.NewConn(server, dialect.Limits{}), d: &Dialect{opts: Options{Options: dialect.Options{Namespace: "default"}}}, wire: w}
	b.ReportAllocs()
	for b.Loop() {
		w.packet(c, packet)
		u := c.gathering
		if len(u.calls) != 1 {
			b.Fatalf("%d commands", len(u.calls))
		}
		c.finish(u.calls[0], &res)
		c.SetOut(c.Out()[:0])
		c.unsent = c.unsent[:0]
		c.gathering = nil
		u.release()
	}
}

const benchID = "6d696c6c000080009000000000000001"

// legacyCase is a call and what the engine would answer.
type legacyCase struct {
	name      string
	procedure string
	args      []string // of 1.5
	notation  string   // of IPROTO
	res       job.Result
}

func legacyCases() []legacyCase {
	task := job.Job{ID: 1, Queue: "tube", State: job.Leased, Body: []byte("some data"), BodyKind: job.BodyBytes, Flags: job.FlagNumbered}
	return []legacyCase{
		{
			"put", "queue.put",
			[]string{"0", "tube", "0", "60", "10", "5", "some data"},
			`0, "tube", 0, 60, 10, 5, "some data"`,
			job.Result{ID: 1, State: job.Ready},
		},
		{"take", "queue.take", []string{"0", "tube", "0"}, `0, "tube", 0`, job.Result{Jobs: []job.Job{task}}},
		{"ack", "queue.ack", []string{"0", benchID}, `0, "` + benchID + `"`, job.Result{Jobs: []job.Job{task}}},
		{"release", "queue.release", []string{"0", benchID}, `0, "` + benchID + `"`, job.Result{Jobs: []job.Job{task}}},
	}
}

// BenchmarkLegacy15 measures calls over the protocol of 1.5.
func BenchmarkLegacy15(b *testing.B) {
	for _, c := range legacyCases() {
		b.Run(c.name, func(b *testing.B) {
			benchmarkLegacy(b, new(box15Wire), tarantooltest.Box15CallPacket(1, c.procedure, c.args...), c.res)
		})
	}
}

// BenchmarkLegacy measures calls over IPROTO.
func BenchmarkLegacy(b *testing.B) {
	for _, c := range legacyCases() {
		b.Run(c.name, func(b *testing.B) {
			d := &Dialect{opts: Options{Options: dialect.Options{Namespace: "default"}}}
			args := tarantooltest.MustEncode(c.notation)
			packet := tarantooltest.CallPacket(tarantooltest.TypeCall, 1, c.procedure, iproto.CountValues(args), args)
			benchmarkLegacy(b, newIProto(d), packet, c.res)
		})
	}
}
