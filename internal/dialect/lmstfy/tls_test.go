package lmstfy_test

import (
	"crypto/tls"
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/dialect/dialecttest"
	"millrace/internal/dialect/lmstfy"
	"millrace/internal/dialect/lmstfy/lmstfytest"
	"millrace/internal/testkit"
)

// TestTLS serves over TLS and counts those who do not speak it, speaks HTTP/1.1 also to clients that could do better,
// and stops at once although a connection has not even shaken hands.
func TestTLS(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cert := testkit.NewCertificate(t, "test")
		s := dialecttest.Start(t)
		d := lmstfy.New(lmstfy.Options{
			Options: dialect.Options{
				Engine: s.Engine,
				TLS:    &tls.Config{Certificates: []tls.Certificate{cert.Pair}, MinVersion: tls.VersionTLS12},
			},
		})
		l := s.Serve(d, 0)
		conn := tls.Client(dial(t, l), &tls.Config{
			RootCAs: cert.Pool, ServerName: "test",
			NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS12,
		})
		c := lmstfytest.New(conn, "default", "")
		_, err := c.Publish("q", "", []byte("secret"))
		must(t, err)
		if got := conn.ConnectionState().NegotiatedProtocol; got != "" {
			t.Errorf("protocol %q", got)
		}
		j, err := c.Consume("q", time.Minute, time.Minute)
		if err != nil || j.Data != "c2VjcmV0" {
			t.Errorf("consumed %+v, %v", j, err)
		}
		if _, err := client(t, l).Publish("q", "", nil); err == nil {
			t.Error("plain text is served")
		}
		synctest.Wait()
		if got := d.Stats().Handshakes; got != 1 {
			t.Errorf("%d connections are counted that did not speak TLS", got)
		}
		silent := dial(t, l)
		synctest.Wait()
		begun := time.Now()
		s.Stop(t)
		if took := time.Since(begun); took > time.Second {
			t.Errorf("stopping took %v", took)
		}
		if _, ended := silent.TryRead(); !ended {
			t.Error("a connection is still open")
		}
		_ = conn.Close() // the server has closed it
	})
}
