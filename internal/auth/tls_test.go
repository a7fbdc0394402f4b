package auth

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// authority signs the certificates of one test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// pair is a certificate and its key as PEM.
type pair struct{ cert, key []byte }

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true,
		BasicConstraintsValid: true,
		NotBefore:             time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert: cert, key: key, pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (a *authority) sign(t *testing.T, serial int64) pair {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pair{
		cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		key:  pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}),
	}
}

// write replaces a file and gives it a time of its own: two writes may fall into
// one tick of the file system's clock.
func write(t *testing.T, path string, data []byte, age time.Duration) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	at := time.Now().Add(-age)
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}

// setup writes the files of a server.
func setup(t *testing.T, a *authority) TLSFiles {
	t.Helper()
	dir := t.TempDir()
	files := TLSFiles{
		Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem"),
		ClientCA: filepath.Join(dir, "ca.pem"),
	}
	p := a.sign(t, 2)
	write(t, files.Cert, p.cert, time.Hour)
	write(t, files.Key, p.key, time.Hour)
	write(t, files.ClientCA, a.pem, time.Hour)
	return files
}

// handshake runs one handshake over a pipe and returns the serial number of the
// server's certificate.
func handshake(t *testing.T, server, client *tls.Config) (serial int64, serverErr, clientErr error) {
	t.Helper()
	a, b := net.Pipe()
	done := make(chan error, 1)
	go func() {
		conn := tls.Server(a, server)
		err := conn.HandshakeContext(t.Context())
		if err == nil {
			// In TLS 1.3 the client learns from its first read that it was refused.
			_, err = conn.Write([]byte{1})
		}
		_ = a.Close()
		done <- err
	}()
	conn := tls.Client(b, client)
	clientErr = conn.HandshakeContext(t.Context())
	if clientErr == nil {
		_, clientErr = conn.Read(make([]byte, 1))
	}
	_ = b.Close()
	serverErr = <-done
	if certs := conn.ConnectionState().PeerCertificates; len(certs) > 0 {
		serial = certs[0].SerialNumber.Int64()
	}
	return serial, serverErr, clientErr
}

func clientConfig(t *testing.T, a *authority, own *pair) *tls.Config {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	c := &tls.Config{RootCAs: pool, ServerName: "localhost"}
	if own != nil {
		cert, err := tls.X509KeyPair(own.cert, own.key)
		if err != nil {
			t.Fatal(err)
		}
		c.Certificates = []tls.Certificate{cert}
	}
	return c
}

func TestHandshake(t *testing.T) {
	t.Parallel()
	a, other := newAuthority(t), newAuthority(t)
	friend, stranger := a.sign(t, 7), other.sign(t, 8)
	for _, c := range []struct {
		name     string
		clientCA bool
		own      *pair
		version  uint16
		ok       bool
	}{
		{"server certificate only", false, nil, 0, true},
		{"tls 1.2", false, nil, tls.VersionTLS12, true},
		{"tls 1.1 is too old", false, nil, tls.VersionTLS11, false},
		{"client certificate", true, &friend, 0, true},
		{"no client certificate", true, nil, 0, false},
		{"certificate of another authority", true, &stranger, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			files := setup(t, a)
			if !c.clientCA {
				files.ClientCA = ""
			}
			server, err := NewTLSConfig(TLSOptions{Files: files})
			if err != nil {
				t.Fatal(err)
			}
			client := clientConfig(t, a, c.own)
			client.MinVersion, client.MaxVersion = c.version, c.version
			serial, serverErr, clientErr := handshake(t, server, client)
			if c.ok && (serverErr != nil || clientErr != nil || serial != 2) {
				t.Errorf("handshake: serial %d, server %v, client %v", serial, serverErr, clientErr)
			}
			if !c.ok && (serverErr == nil || clientErr == nil) {
				t.Errorf("handshake: server %v, client %v, want both refused", serverErr, clientErr)
			}
		})
	}
}

// Renewed files take effect at the next handshake; bad ones are complained about
// once and the old ones go on.
func TestReload(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	files := setup(t, a)
	files.ClientCA = ""
	var log bytes.Buffer
	server, err := NewTLSConfig(TLSOptions{Files: files, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	client := clientConfig(t, a, nil)
	expect := func(want int64) {
		t.Helper()
		serial, serverErr, clientErr := handshake(t, server, client)
		if serial != want || serverErr != nil || clientErr != nil {
			t.Errorf("serial %d, server %v, client %v, want serial %d", serial, serverErr, clientErr, want)
		}
	}
	expect(2)

	renewed := a.sign(t, 3)
	write(t, files.Cert, renewed.cert, 30*time.Minute) // the key does not fit yet
	expect(2)
	expect(2)
	if n := strings.Count(log.String(), "cannot be used"); n != 1 {
		t.Errorf("%d complaints about one bad change:\n%s", n, log.String())
	}
	write(t, files.Key, renewed.key, 20*time.Minute)
	expect(3)
	if err := os.Remove(files.Key); err != nil {
		t.Fatal(err)
	}
	expect(3)
	if n := strings.Count(log.String(), "reloaded"); n != 1 {
		t.Errorf("%d reloads:\n%s", n, log.String())
	}
}

func TestLoadErrors(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T, f *TLSFiles)
		want  string
	}{
		{"no certificate", func(t *testing.T, f *TLSFiles) { t.Helper(); f.Cert += "x" }, "tls certificate: open"},
		{"no key", func(t *testing.T, f *TLSFiles) { t.Helper(); f.Key += "x" }, "tls key: open"},
		{
			"no authority", func(t *testing.T, f *TLSFiles) { t.Helper(); f.ClientCA += "x" },
			"tls client authorities: open",
		},
		{"not a key", func(t *testing.T, f *TLSFiles) { t.Helper(); f.Key = f.Cert }, "with key"},
		{
			"not an authority", func(t *testing.T, f *TLSFiles) { t.Helper(); f.ClientCA = f.Key },
			"holds no certificate",
		},
		{"huge", func(t *testing.T, f *TLSFiles) {
			t.Helper()
			write(t, f.Cert, make([]byte, pemSizeMax+1), 0)
		}, "larger than 1 MiB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			files := setup(t, a)
			c.spoil(t, &files)
			_, err := NewTLSConfig(TLSOptions{Files: files})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}
