package dialecttest

import (
	"bytes"
	"fmt"
	"testing/synctest"
	"time"

	"millrace/internal/testkit"
)

// greetings are what may stand before a command in the body of a request: nothing, and the first line of a client of
// Faktory.
var greetings = []string{"", "HELLO {\"v\":2}\r\n"}

// fillings is how many lengths of what stands before a command are tried: a protocol that counts bytes finds the
// beginning of a packet at one of them.
const fillings = 160

// webPage sends what a browser would for a web page that has chosen the method, the path, a header and the body of a
// request, or what a TLS session is continued with.
func webPage(b *bench) {
	pushes := [][]byte{}
	for _, greeting := range greetings {
		pushes = append(pushes, append([]byte(greeting), b.d.Push(queue, `"planted"`)...))
	}
	for i := range fillings {
		for _, push := range pushes {
			for _, method := range []string{"POST", "GET", "PUSH", "ATOMIC", "lease", "add", "HELLO", "X"} {
				b.foreign(fmt.Appendf(nil, "%s /%s HTTP/1.1\r\nHost: localhost:1\r\nContent-Length: %d\r\n\r\n%s",
					method, filling(i), len(push), push))
			}
			b.foreign(fmt.Appendf(nil, "\x16\x03\x01\x02\x00\x01\x00\x01%s\r\n%s", filling(i), push))
			b.foreign(fmt.Appendf(nil, "PROXY UNKNOWN\r\nPOST / HTTP/1.1\r\nX: %s\r\n\r\n%s", filling(i), push))
			b.foreign(fmt.Appendf(nil, "X\r\nhost: a%s\r\n\r\n%s", filling(i), push))
		}
	}
	synctest.Wait()
	b.counts(0, 0)
	b.works()
}

func filling(n int) []byte { return bytes.Repeat([]byte("x"), n) }

// foreign sends bytes that nothing may come of. That they are not read to the end is fine.
func (b *bench) foreign(data []byte) {
	c := b.dial()
	go swallow(c)
	_, _ = c.Write(data)
	synctest.Wait()
	_ = c.Close() // it cannot fail
}

// aboutHTTP pushes jobs whose bodies hold lines of HTTP, as the first command of a connection.
func aboutHTTP(b *bench) {
	for _, text := range []string{
		`"POST / HTTP/1.1"`, `"Host: x"`, `"POST / HTTP/1.1\r\nHost: x\r\n\r\n"`,
		`{"Host: x":"GET / HTTP/1.1"}`,
	} {
		c := b.client()
		b.push(c, text)
		task, err := c.Fetch(queue, time.Second)
		if err != nil || task.Body != text {
			b.t.Fatalf("%s: fetched %+v, %v", text, task, err)
		}
		if err := c.Ack(task.Handle); err != nil {
			b.t.Errorf("%s: ack: %v", text, err)
		}
		if !b.d.AnyBytes {
			continue
		}
		raw := "POST / HTTP/1.1\r\nHost: x\r\n\r\n"
		if err := c.Push(queue, raw); err != nil {
			b.t.Errorf("push: %v", err)
		}
		if task, err = c.Fetch(queue, time.Second); err != nil || task.Body != raw {
			b.t.Errorf("fetched %+v, %v", task, err)
		}
		if err := c.Ack(task.Handle); err != nil {
			b.t.Errorf("ack: %v", err)
		}
		_ = c.Close() // it cannot fail
	}
	testkit.Advance(b.t, closing)
	b.counts(0, 0)
}
