package bench

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// certificate writes a certificate for 127.0.0.1 and its key, and returns their files and a client that trusts it.
func certificate(t *testing.T) (cert, key string, trusting *tls.Config) {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	s.Close() // it is only about its certificate
	pair := s.TLS.Certificates[0]
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{
		cert: {Type: "CERTIFICATE", Bytes: pair.Certificate[0]}, key: {Type: "PRIVATE KEY", Bytes: der},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	trusting = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
	trusting.RootCAs.AddCert(s.Certificate())
	return cert, key, trusting
}

// Every protocol can be measured with TLS. Whom the client does not trust it does not speak to.
func TestTLS(t *testing.T) {
	t.Parallel()
	cert, key, trusting := certificate(t)
	more := make(map[string]string)
	for _, p := range append(Protocols(), &Protocol{Name: "web"}) {
		more[p.Name+".tls.cert"], more[p.Name+".tls.key"] = cert, key
	}
	addrs := serveAll(t, more)
	for _, p := range Protocols() {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			o := options(p, addrs[p.Name])
			o.Queue, o.Batch, o.TLS = p.Name, 5, trusting
			r, err := Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if !r.TLS || !r.Checked || r.Lost != 0 || r.Duplicated != 0 || r.Fetch.Count != 300 {
				t.Errorf("%+v", r)
			}
			o.TLS = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
			if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "certificate") {
				t.Errorf("of nobody's: %v", err)
			}
		})
	}
	t.Run("server", func(t *testing.T) {
		t.Parallel()
		if s, err := ReadServer(t.Context(), Web{URL: addrs["web"], TLS: trusting}); err != nil || s.Version != "1.2.3" {
			t.Errorf("%+v, %v", s, err)
		}
	})
}
