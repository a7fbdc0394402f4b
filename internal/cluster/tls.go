package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// LoadTLS returns the configuration with which nodes prove to each other who they are; nil without files. Both sides
// must have a certificate of the same authorities, and that of who is called must name the host.
func LoadTLS(cert, key, ca string) (*tls.Config, error) {
	if cert == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("cluster.tls: %w", err)
	}
	text, err := os.ReadFile(ca) //nolint:gosec // the operator names it
	if err != nil {
		return nil, fmt.Errorf("cluster.tls.ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("cluster.tls.ca: %w", errors.New(ca+" has no certificate in PEM form"))
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair},
		RootCAs: pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
	}, nil
}
