package auth

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"
)

// TLSFiles names the PEM files of a listener.
type TLSFiles struct {
	Cert string // certificate chain, the server's own first
	Key  string // private key of the first certificate
	// ClientCA holds the authorities that sign clients. If it is set a client
	// must present a certificate that one of them signed.
	ClientCA string
}

// TLSOptions configures the TLS of a listener.
type TLSOptions struct {
	Files  TLSFiles
	Logger *slog.Logger
}

// NewTLSConfig loads the files and returns the configuration of a listener. Each
// handshake looks whether the files have changed, so that renewed ones take
// effect without a restart. New files that cannot be used are logged once, and the
// old ones stay in use.
func NewTLSConfig(o TLSOptions) (*tls.Config, error) {
	config, _, err := NewTLS(o)
	return config, err
}

// NewTLS does as NewTLSConfig, and returns what reads the files again, changed or not: it returns what takes them over.
func NewTLS(o TLSOptions) (config *tls.Config, reload func() (apply func(), err error), err error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	m := &material{files: o.Files, log: o.Logger}
	apply, err := m.reload()
	if err != nil {
		return nil, nil, err
	}
	apply()
	// The certificates come from GetConfigForClient alone, which runs first.
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return m.config(), nil },
	}, m.reload, nil
}

// material is what the files held when they were last read.
type material struct {
	files TLSFiles
	log   *slog.Logger

	mu      sync.Mutex // guards what follows
	current *tls.Config
	read    stamp // of the files as last looked at, good or bad
}

// stamp tells whether files are the same as before without reading them.
type stamp [3]struct {
	modified time.Time
	size     int64
}

func (m *material) stamp() stamp {
	var s stamp
	for i, path := range []string{m.files.Cert, m.files.Key, m.files.ClientCA} {
		if path == "" {
			continue
		}
		// A file that is missing for a moment while it is replaced has the zero
		// stamp; reading it says what is wrong.
		if info, err := os.Stat(path); err == nil {
			s[i].modified, s[i].size = info.ModTime(), info.Size()
		}
	}
	return s
}

// config returns the configuration to shake hands with.
func (m *material) config() *tls.Config {
	now := m.stamp()
	m.mu.Lock()
	defer m.mu.Unlock()
	if now == m.read {
		return m.current
	}
	m.read = now // also if they are bad, so that they are complained about once
	if fresh, err := m.load(); err != nil {
		m.log.Error("renewed TLS files cannot be used; the old ones stay in use", slog.Any("error", err))
	} else {
		m.current = fresh
		m.log.Info("TLS files reloaded", slog.String("cert", m.files.Cert))
	}
	return m.current
}

// reload reads the files and returns what takes them over.
func (m *material) reload() (apply func(), err error) {
	now := m.stamp()
	fresh, err := m.load()
	if err != nil {
		return nil, err
	}
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.current, m.read = fresh, now
	}, nil
}

// load reads the files.
func (m *material) load() (*tls.Config, error) {
	cert, err := readPEM(m.files.Cert)
	if err != nil {
		return nil, fmt.Errorf("tls certificate: %w", err)
	}
	key, err := readPEM(m.files.Key)
	if err != nil {
		return nil, fmt.Errorf("tls key: %w", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("tls certificate %s with key %s: %w", m.files.Cert, m.files.Key, err)
	}
	fresh := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	if m.files.ClientCA != "" {
		authorities, err := readPEM(m.files.ClientCA)
		if err != nil {
			return nil, fmt.Errorf("tls client authorities: %w", err)
		}
		fresh.ClientCAs = x509.NewCertPool()
		if !fresh.ClientCAs.AppendCertsFromPEM(authorities) {
			return nil, fmt.Errorf("tls client authorities: %s holds no certificate", m.files.ClientCA)
		}
		fresh.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return fresh, nil
}

// pemSizeMax bounds a PEM file: a bundle of all public authorities is a fifth.
const pemSizeMax = 1 << 20

// readPEM reads a file of bounded size.
func readPEM(path string) ([]byte, error) {
	file, err := os.Open(path) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // only read from
	data, err := io.ReadAll(io.LimitReader(file, pemSizeMax+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", path, err)
	case len(data) > pemSizeMax:
		return nil, fmt.Errorf("%s is larger than 1 MiB: is it the right file?", path)
	}
	return data, nil
}
