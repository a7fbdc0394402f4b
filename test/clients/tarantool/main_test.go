// Package tarantool runs connectors of Tarantool against the binary: the Go
// connector with its queue package, the Node driver, and over the protocol of
// Tarantool 1.5 a Perl client of that time.
package tarantool

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tarantool/go-iproto"
	"github.com/tarantool/go-tarantool/v2"
	"github.com/tarantool/go-tarantool/v2/queue"

	"millrace/test/clients/kit"
)

func TestMain(m *testing.M) { os.Exit(kit.Main(m)) }

// The names under which the server announces its listeners.
const (
	modern = "tarantool"
	old    = "tarantool15"
)

// Who may log in where the server asks for it.
const user, password = "worker", "geh:eim!"

// timeout bounds every call of the Go connector.
const timeout = 20 * time.Second

// connect connects for the length of the test.
func connect(t *testing.T, addr string) *tarantool.Connection {
	t.Helper()
	return dial(t, tarantool.NetDialer{Address: addr}, tarantool.Opts{Timeout: timeout})
}

// dial connects in another way.
func dial(t *testing.T, dialer tarantool.Dialer, opts tarantool.Opts) *tarantool.Connection {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	conn, err := tarantool.Connect(ctx, dialer, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // a test may have closed it
	return conn
}

// TestLogin has the Go connector log in.
func TestLogin(t *testing.T) {
	t.Parallel()
	addr := kit.Start(t, []string{modern}, "--tarantool-auth", "login", "--tarantool-users",
		user+":"+password).Addr(modern)
	q := tube(t, dial(t, tarantool.NetDialer{Address: addr, User: user, Password: password},
		tarantool.Opts{Timeout: timeout}),
		"login", queue.Cfg{Kind: queue.FIFO})
	put(t, q, "x", queue.Opts{}, queue.READY)
	ok(t, take(t, q, 0).Ack())

	_, err := queue.New(connect(t, addr), "login").Put("x")
	refused(t, err, iproto.ER_ACCESS_DENIED,
		"Execute access to function 'queue.tube.login:put' is denied for user 'guest'")
	for _, stranger := range []tarantool.NetDialer{
		{Address: addr, User: user, Password: "wrong"},
		{Address: addr, User: "nobody", Password: password},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		_, err := tarantool.Connect(ctx, stranger, tarantool.Opts{Timeout: timeout})
		cancel()
		if err == nil || !strings.Contains(err.Error(), "Incorrect password supplied for user '"+stranger.User+"'") {
			t.Errorf("login as %s: %v", stranger.User, err)
		}
	}
}

// TestNode runs the tests of the Node driver, also with a login and TLS.
func TestNode(t *testing.T) {
	t.Parallel()
	node := func(t *testing.T, s *kit.Server, env ...string) {
		t.Helper()
		host, port := s.HostPort(t, modern)
		kit.Node(t, "tarantool.js", "tarantool-driver", append(env, "HOST="+host, "PORT="+strconv.Itoa(port))...)
	}
	t.Run("guest", func(t *testing.T) {
		t.Parallel()
		node(t, kit.Start(t, []string{modern}))
	})
	t.Run("login and TLS", func(t *testing.T) {
		t.Parallel()
		c := kit.NewCertificate(t)
		s := kit.Start(t, []string{modern}, "--tarantool-auth", "login", "--tarantool-users", user+":"+password,
			"--tarantool-tls-cert", c.CertFile, "--tarantool-tls-key", c.KeyFile)
		node(t, s, "LOGIN="+user, "PASSWORD="+password, "CA_FILE="+c.CertFile)
	})
}

// TestPerl runs the tests of the client of Tarantool 1.5.
func TestPerl(t *testing.T) {
	t.Parallel()
	s := kit.Start(t, []string{old}, "--tarantool15-addr", "127.0.0.1:0")
	kit.Perl(t, "tarantool15.t", "MR::Tarantool::Box", "libmr-tarantool-perl", "ADDR="+s.Addr(old))
}

// ok fails the test if a call did.
func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
