package testkit

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Certificate is one that signs itself, for a test.
type Certificate struct {
	// Pair is for a server.
	Pair tls.Certificate
	// Pool is for a client that trusts it.
	Pool *x509.CertPool

	der []byte
	key *ecdsa.PrivateKey
}

// NewCertificate makes a certificate for a name and for 127.0.0.1.
func NewCertificate(t *testing.T, name string) *Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:        true, BasicConstraintsValid: true, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	c := &Certificate{
		Pair: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, Pool: x509.NewCertPool(),
		der: der, key: key,
	}
	c.Pool.AddCert(cert)
	return c
}

// Client returns the configuration of a client that trusts the certificate.
func (c *Certificate) Client(name string) *tls.Config {
	return &tls.Config{RootCAs: c.Pool, ServerName: name, MinVersion: tls.VersionTLS12}
}

// Files writes the certificate and its key to two files.
func (c *Certificate) Files(t *testing.T) (cert, key string) {
	t.Helper()
	der, err := x509.MarshalECPrivateKey(c.key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{
		cert: {Type: "CERTIFICATE", Bytes: c.der}, key: {Type: "EC PRIVATE KEY", Bytes: der},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}
