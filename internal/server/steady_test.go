package server

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// In a cluster another node may lead at any moment. Then connections end without an answer, and a client has to try
// again.

// tell sends a request to an address until it is answered, and returns the answer. What it asks for may happen more
// than once.
func tell(t *testing.T, addr, request string) (answer string) {
	t.Helper()
	until(t, fmt.Sprintf("%.60s is answered at %s", request, addr), func() bool {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return false
		}
		defer func() { _ = c.Close() }()
		answer, err = exchange(c, bufio.NewReader(c), request)
		return err == nil
	})
	return answer
}

func exchange(c net.Conn, r *bufio.Reader, request string) (string, error) {
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(c, request+"\n"); err != nil {
		return "", err
	}
	line, err := r.ReadString('\n')
	return strings.TrimSpace(line), err
}

// push pushes a job until that is acknowledged, which may make several of the same name.
func push(t *testing.T, addr, queue, name, more string) {
	t.Helper()
	if got := tell(t, addr, fmt.Sprintf(`PUSH {"name":%q,"queue":%q%s}`, name, queue, more)); !strings.HasPrefix(got,
		`OK {"id":`) {
		t.Fatalf("push of %s: %s", name, got)
	}
}

// pull fetches and acknowledges all jobs of a queue, and returns their names in order, each once.
func pull(t *testing.T, addr, queue string) (names []string) {
	t.Helper()
	seen := map[string]bool{}
	pulled := func() error {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		r := bufio.NewReader(c)
		for {
			line, err := exchange(c, r, fmt.Sprintf(`FETCH {"queues":[%q],"timeout":"1s"}`, queue))
			if err != nil || strings.HasPrefix(line, "EMPTY") {
				return err
			}
			var id uint64
			if _, err := fmt.Sscanf(line, `OK {"id":%d,`, &id); err != nil {
				t.Fatalf("fetch: %.100s", line)
			}
			_, rest, _ := strings.Cut(line, `"name":"`)
			name, _, _ := strings.Cut(rest, `"`)
			if !seen[name] {
				seen[name] = true
				names = append(names, name)
			}
			if _, err := exchange(c, r, fmt.Sprintf(`ACK {"id":%d}`, id)); err != nil {
				return err // it may come again
			}
		}
	}
	until(t, "all jobs of "+queue+" are fetched", func() bool { return pulled() == nil })
	return names
}
