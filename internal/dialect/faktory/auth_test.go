package faktory_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/dialect/dialecttest"
	"millrace/internal/dialect/faktory"
	"millrace/internal/dialect/faktory/faktorytest"
	"millrace/internal/testkit"
	"millrace/internal/wire"
)

// TestPassword shakes hands with and without the right password, as clients of today's
// version and of old ones.
func TestPassword(t *testing.T) {
	t.Parallel()
	inBubble(t, faktory.Options{Password: "s3cret ö"}, func(t *testing.T, b *bench) {
		t.Helper()
		for _, test := range []struct {
			name, password string
			version        int
			ok             bool
		}{
			{"right", "s3cret ö", 2, true},
			{"right, newer version", "s3cret ö", 3, true},
			{"right, no version, one round", "s3cret ö", 0, true},
			{"right, version 1, one round", "s3cret ö", 1, true},
			{"wrong", "secret", 2, false},
			{"wrong, no version", "secret", 0, false},
			{"none", "", 2, false},
			{"none, no version", "", 0, false},
		} {
			conn := b.dial()
			want := "-ERR Invalid password\r\n"
			if test.ok {
				want = "+OK\r\n"
			}
			_, err := io.WriteString(conn, helloTo(t, conn, test.version, test.password))
			must(t, err)
			testkit.Advance(t, 0)
			if data, ended := conn.TryRead(); string(data) != want || ended == test.ok {
				t.Errorf("%s: received %q, ended %t", test.name, data, ended)
			}
			if !test.ok {
				_ = conn.Close()
			}
		}
		if workers := b.d.Workers(); len(workers) != 1 || workers[0].Connections != 4 {
			t.Errorf("workers %+v", workers)
		}
	})
}

// helloTo reads the greeting and returns the answer of a client of a version, if zero without one, that is given a
// password, if empty none.
func helloTo(t *testing.T, conn *testkit.Conn, version int, password string) string {
	t.Helper()
	testkit.Advance(t, 0)
	greeting, _ := conn.TryRead()
	var hi struct {
		Rounds int    `json:"i"`
		Salt   string `json:"s"`
	}
	must(t, json.Unmarshal(greeting[len("+HI "):], &hi))
	hello := map[string]any{"wid": "w"}
	if version > 0 {
		hello["v"] = version
	}
	if version < 2 {
		hi.Rounds = 1
	}
	if password != "" {
		hello["pwdhash"] = wire.FaktoryHash(password, hi.Salt, hi.Rounds)
	}
	text, err := json.Marshal(hello)
	must(t, err)
	return "HELLO " + string(text) + "\r\n"
}

// TestChallenge looks at what is asked: rounds within the bounds, and another salt each
// time. The hash for one round is that of today's with the version left out.
func TestChallenge(t *testing.T) {
	t.Parallel()
	inBubble(t, faktory.Options{Password: "x"}, func(t *testing.T, b *bench) {
		t.Helper()
		salts := map[string]bool{}
		for range 200 {
			conn := b.dial()
			testkit.Advance(t, 0)
			data, _ := conn.TryRead()
			_ = conn.Close()
			text, ok := strings.CutPrefix(string(data), `+HI {"v":2,"i":`)
			rounds, rest, cut := strings.Cut(text, `,"s":"`)
			salt, end, closed := strings.Cut(rest, `"`)
			if !ok || !cut || !closed || end != "}\r\n" || len(rounds) != 4 || rounds < "4000" || rounds > "8095" ||
				salt == "" || len(salt) > 16 || strings.Trim(salt, "0123456789abcdef") != "" || salts[salt] {
				t.Fatalf("greeting %q", data)
			}
			salts[salt] = true
		}
	})
}

// TestPasswordNotAsked lets a client in that would know one.
func TestPasswordNotAsked(t *testing.T) {
	t.Parallel()
	inBubble(t, faktory.Options{}, func(t *testing.T, b *bench) {
		t.Helper()
		hello := map[string]any{"pwdhash": "abc"}
		if _, err := faktorytest.NewWith(b.dial(), wire.Options{Hello: hello, Secret: "anything"}); err != nil {
			t.Errorf("handshake: %v", err)
		}
	})
}

// TestHelloTooLong gives up a first line before it costs memory.
func TestHelloTooLong(t *testing.T) {
	t.Parallel()
	inBubble(t, faktory.Options{}, func(t *testing.T, b *bench) {
		t.Helper()
		conn := b.dial()
		_, err := io.WriteString(conn, "HELLO {"+strings.Repeat(" ", 64<<10))
		must(t, err)
		testkit.Advance(t, 0)
		if data, ended := conn.TryRead(); string(data) != "+HI {\"v\":2}\r\n-ERR command too long\r\n" || !ended {
			t.Errorf("received %q, ended %t", data, ended)
		}
		_ = conn.Close()
	})
}

// TestTLS speaks TLS over real sockets, and drops a client that does not.
func TestTLS(t *testing.T) {
	t.Parallel()
	web := httptest.NewTLSServer(nil) // it has a certificate for 127.0.0.1
	defer web.Close()
	s := dialecttest.Start(t)
	defer s.Stop(t)
	d := faktory.New(faktory.Options{
		Options: dialect.Options{
			Engine: s.Engine,
			TLS:    &tls.Config{Certificates: web.TLS.Certificates, MinVersion: tls.VersionTLS12},
		},
		Password: "pw",
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s.ServeOn(d, l)
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		conn, err := tls.Dial("tcp", l.Addr().String(),
			&tls.Config{RootCAs: roots, MinVersion: version, MaxVersion: version})
		must(t, err)
		c, err := faktorytest.NewWith(conn, wire.Options{Hello: map[string]any{"wid": "w"}, Secret: "pw"})
		must(t, err)
		j := newJob("q")
		must(t, c.Push(j))
		got, err := c.Fetch("q")
		if err != nil || got.JID != j.JID {
			t.Errorf("fetched %+v, %v", got, err)
		}
		must(t, c.Ack(j.JID))
		must(t, c.OK("END"))
		_ = conn.Close()
	}
	// The original's handshake limit holds for TLS, too: this client says nothing.
	conn, err := net.Dial("tcp", l.Addr().String())
	must(t, err)
	defer func() { _ = conn.Close() }()
	_, err = io.WriteString(conn, "HELLO {\"v\":2}\r\n")
	must(t, err)
	must(t, conn.SetDeadline(time.Now().Add(10*time.Second)))
	if data, err := io.ReadAll(conn); err != nil && !errors.Is(err, net.ErrClosed) &&
		strings.Contains(err.Error(), "timeout") || strings.Contains(string(data), "HI") {
		t.Errorf("a plain client got %q, %v", data, err)
	}
}
