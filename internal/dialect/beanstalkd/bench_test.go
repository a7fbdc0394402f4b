package beanstalkd

import (
	"testing"

	"millrace/internal/dialect"
)

// The costs of the protocol itself, without engine and network: from a line to the engine's command. None of these
// allocates.

func benchCommand(b *testing.B, line string) {
	b.Helper()
	d := New(Options{})
	c := &conn{d: d, used: d.tubes.use(defaultTube)}
	body := []byte("0123456789")
	work := []byte(line)
	b.ReportAllocs()
	for b.Loop() {
		u := dialect.GetUnit()
		parse(work, &c.req)
		if c.command(u, body); len(u.Commands) != 1 {
			b.Fatal("not one command")
		}
		u.Release()
	}
}

func BenchmarkPut(b *testing.B)     { benchCommand(b, "put 1024 0 60 10") }
func BenchmarkDelete(b *testing.B)  { benchCommand(b, "delete 123456") }
func BenchmarkRelease(b *testing.B) { benchCommand(b, "release 123456 1024 0") }
