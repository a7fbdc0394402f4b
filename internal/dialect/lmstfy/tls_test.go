package lmstfy_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/dialect/dialecttest"
	"millrace/internal/dialect/lmstfy"
	"millrace/internal/dialect/lmstfy/lmstfytest"
)

func selfSigned(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"test"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// TestTLS serves over TLS, speaks HTTP/1.1 also to clients that could do better, and stops
// at once although a connection has not even shaken hands.
func TestTLS(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cert, pool := selfSigned(t)
		s := dialecttest.Start(t)
		l := s.Serve(lmstfy.New(lmstfy.Options{
			Engine: s.Engine, TLS: &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12},
		}), 0)
		conn := tls.Client(dial(t, l), &tls.Config{RootCAs: pool, ServerName: "test", NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS12})
		c := lmstfytest.New(conn, "default")
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
