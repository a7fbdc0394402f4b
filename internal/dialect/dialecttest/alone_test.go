package dialecttest

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"millrace/internal/dialect"
	"millrace/internal/dialect/beanstalkd"
	"millrace/internal/dialect/faktory"
	"millrace/internal/dialect/lmstfy"
	"millrace/internal/dialect/masenko"
	"millrace/internal/dialect/tarantool"
	"millrace/internal/dialect/tarantool/tarantooltest"
	"millrace/internal/dialect/workq"
)

// The answers about all queues, of any protocol, are made one at a time: while one is made, all others wait for
// it, and nothing else does.
func TestListsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := Start(t)
		defer s.Stop(t)
		shared := dialect.NewShared(0, 0)
		o := dialect.Options{Engine: s.Engine, Shared: shared}
		fd, md := faktory.New(faktory.Options{Options: o}), masenko.New(masenko.Options{Options: o})
		ld := lmstfy.New(lmstfy.Options{Options: o})
		end := shared.TakeAlone()
		type asked struct {
			what     string
			answered chan struct{}
		}
		var lists []asked
		ask := func(what string, do func()) chan struct{} {
			a := asked{what, make(chan struct{})}
			go func() {
				defer close(a.answered)
				do()
			}()
			lists = append(lists, a)
			return a.answered
		}
		wire := func(d Driver, served dialect.Dialect, request ...[]byte) {
			l := s.Serve(served, 1<<20)
			for i, r := range request {
				conn, err := l.Dial()
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = conn.Close() }) // it cannot fail
				in, err := d.hello(conn)
				if err != nil {
					t.Fatal(err)
				}
				answered := ask(d.Name+" "+string(r), func() { send(t, conn, r); _, _ = in.ReadByte() })
				if i == 0 { // it is the one that is no list
					lists = lists[:len(lists)-1]
					<-answered
				}
			}
		}
		call := func(procedure string) []byte {
			return tarantooltest.CallPacket(tarantooltest.TypeCall, 1, procedure, 0, nil)
		}
		get := func(what, path string, h http.Handler) {
			ask(what, func() { h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil)) })
		}
		wire(Masenko(), md, []byte("PING\n"), []byte("INFO\n"))
		wire(Faktory(), fd, []byte("BEAT {}\r\n"), []byte("INFO\r\n"))
		wire(Workq(), workq.New(workq.Options{Options: o}), []byte("inspect server\r\n"),
			[]byte("inspect queues 0 10\r\n"))
		wire(Beanstalkd(), beanstalkd.New(beanstalkd.Options{Options: o}), []byte("list-tube-used\r\n"),
			[]byte("list-tubes\r\n"), []byte("stats\r\n"))
		wire(Tarantool(), tarantool.New(tarantool.Options{Options: o}), call("queue.state"), call("queue.stats"),
			call("queue.statistics"), call("queue.tube"))
		wire(TarantoolLegacy(), tarantool.New(tarantool.Options{Options: o}), call("box.info"),
			call("queue.statistics"))
		get("Faktory's /stats", "/stats", fd.StatsHandler())
		get("Masenko's metrics", "/", md.MetricsHandler())
		get("LMSTFY's /info", "/info", ld.AdminHandler())
		get("LMSTFY's /metrics", "/metrics", ld.AdminHandler())
		synctest.Wait()
		for _, a := range lists {
			select {
			case <-a.answered:
				t.Errorf("%q was answered beside another", a.what)
			default:
			}
		}
		end()
		for _, a := range lists {
			<-a.answered
		}
	})
}

func send(t *testing.T, conn net.Conn, b []byte) {
	t.Helper()
	if _, err := conn.Write(b); err != nil {
		t.Error(err)
	}
}
