package faktory

import (
	"bytes"
	"testing"

	"millrace/internal/dialect"
	"millrace/internal/job"
)

// The costs of the protocol itself, without engine and network: from a line to the
// engine's command, or from its answer to the reply.

func benchCommand(b *testing.B, line string, commands int) {
	b.Helper()
	c := &conn{d: New(Options{})}
	c.jids.add("8d3f0a5b1c2e4f6a7b8c9d0e")
	work := make([]byte, len(line))
	b.ReportAllocs()
	for b.Loop() {
		u := dialect.GetUnit()
		copy(work, line)
		if command(c, u, work); len(u.Commands) != commands {
			b.Fatal("not that many commands")
		}
		u.Release()
	}
}

const benchJob = `{"jid":"8d3f0a5b1c2e4f6a7b8c9d0e","queue":"mail","jobtype":"SendMail","args":["a@example.com",123456,{"copies":[1,2,3]}],"created_at":"2026-11-15T00:15:47.893360216Z","retry":25,"custom":{"trace":"0123456789abcdef"}}`

// BenchmarkPush allocates the jid, which the engine keeps.
func BenchmarkPush(b *testing.B) { benchCommand(b, "PUSH "+benchJob, 1) }

func BenchmarkPushTracked(b *testing.B) {
	benchCommand(b, `PUSH {"jid":"8d3f0a5b1c2e4f6a7b8c9d0e","jobtype":"x","args":[],"custom":{"track":1,"bid":"b-12","expires_in":60}}`, 1)
}

func BenchmarkPushUnique(b *testing.B) {
	benchCommand(b, `PUSH {"jid":"8d3f0a5b1c2e4f6a7b8c9d0e","jobtype":"x","args":[],"custom":{"unique_for":60}}`, 1)
}

func BenchmarkPushBulk64(b *testing.B) {
	var line bytes.Buffer
	line.WriteString("PUSHB [")
	for i := range 64 {
		if i > 0 {
			line.WriteByte(',')
		}
		line.WriteString(benchJob)
	}
	line.WriteByte(']')
	benchCommand(b, line.String(), 64)
}

func BenchmarkAck(b *testing.B) { benchCommand(b, `ACK {"jid":"8d3f0a5b1c2e4f6a7b8c9d0e"}`, 1) }

func BenchmarkFail(b *testing.B) {
	benchCommand(b, `FAIL {"jid":"8d3f0a5b1c2e4f6a7b8c9d0e","errtype":"RuntimeError","message":"it broke","backtrace":["a.rb:1","b.rb:2"]}`, 1)
}

func BenchmarkFetch(b *testing.B) {
	c := &conn{d: New(Options{})}
	line := []byte("FETCH critical mail default")
	u := dialect.GetUnit()
	s := &u.Pushes.Get().Spec
	var parsed jobText
	if parsed.read(u, s, []byte(benchJob)) != "" || c.finishPush(&parsed, s) != "" {
		b.Fatal("not a job")
	}
	j := &job.Job{
		ID: 12345, Key: s.Key, Queue: s.Queue, Type: s.Type, Body: s.Body, BodyKind: s.BodyKind, Extra: s.Extra,
		Origin: dialect.DoorFaktory, Created: 1e15, ReadyAt: 1e15 + 1, Policy: s.Policy,
	}
	var out []byte
	b.ReportAllocs()
	for b.Loop() {
		u := dialect.GetUnit()
		if !command(c, u, line) {
			b.Fatal("not a fetch")
		}
		u.Release()
		out = appendFetched(out[:0], j)
	}
	if !bytes.Contains(out, []byte(`"retry":25,`)) {
		b.Fatalf("%s", out)
	}
}
