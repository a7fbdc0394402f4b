package bench

import (
	"crypto/tls"
	"crypto/x509"
	"strings"
	"testing"

	"millrace/internal/testkit"
)

// Every protocol can be measured with TLS. Whom the client does not trust it does not speak to.
func TestTLS(t *testing.T) {
	t.Parallel()
	certificate := testkit.NewCertificate(t, "localhost")
	cert, key := certificate.Files(t)
	trusting := certificate.Client("")
	more := make(map[string]string)
	for _, p := range Protocols() {
		more[p.Listener()+".tls.cert"], more[p.Listener()+".tls.key"] = cert, key
	}
	addrs := serveAll(t, more)
	for _, p := range Protocols() {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			o := options(p, addressOf(addrs, p))
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
		if s, err := ReadServer(t.Context(), Web{URL: addrs["web"], TLS: trusting}); err != nil ||
			s.Version != "1.2.3" {
			t.Errorf("%+v, %v", s, err)
		}
	})
}
