package cli

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"millrace/internal/config"
)

// tlsFlags are the flags that say whom a client trusts, and who it is.
type tlsFlags struct {
	ca       string
	cert     string
	key      string
	insecure bool
}

func (f *tlsFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.ca, "tls-ca", "", "PEM file with the authorities to trust ("+config.ClientCAVariable+")")
	flags.StringVar(&f.cert, "tls-cert", "", "PEM file with a client certificate")
	flags.StringVar(&f.key, "tls-key", "", "PEM file with its private key")
	flags.BoolVar(&f.insecure, "tls-insecure", false, "do not verify the server's certificate")
	for _, name := range []string{"tls-ca", "tls-cert", "tls-key"} {
		must(cmd.MarkFlagFilename(name, "pem", "crt", "key"))
	}
}

// config reads the files.
func (f *tlsFlags) config(p Process) (*tls.Config, error) {
	t := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: f.insecure} //nolint:gosec // only if asked for
	if ca := orElse(f.ca, p.env(config.ClientCAVariable)); ca != "" {
		text, err := os.ReadFile(ca) //nolint:gosec // the operator names the file
		if err != nil {
			return nil, fail(fmt.Errorf("--tls-ca: %w", err))
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(text) {
			return nil, fail(fmt.Errorf("--tls-ca: %s holds no certificate", ca))
		}
	}
	if (f.cert == "") != (f.key == "") {
		return nil, errors.New("--tls-cert and --tls-key: give both or none")
	}
	if f.cert != "" {
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return nil, fail(fmt.Errorf("--tls-cert: %w", err))
		}
		t.Certificates = []tls.Certificate{pair}
	}
	return t, nil
}

// pin has a client of the server of this machine trust the certificate that is configured for a listener and no other,
// unless it was told whom to trust: it asks by an address that the certificate need not name.
func pin(t *tls.Config, protocol string, files config.TLS) error {
	if !files.Enabled() || t.RootCAs != nil || t.InsecureSkipVerify {
		return nil
	}
	file := files.Cert
	text, err := os.ReadFile(file) //nolint:gosec // the configuration names the file
	if err != nil {
		return fail(fmt.Errorf("%s.tls.cert: %w: name an authority to trust with --tls-ca", protocol, err))
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return fail(fmt.Errorf("%s.tls.cert: %s holds no certificate", protocol, file))
	}
	t.InsecureSkipVerify = true
	t.VerifyConnection = func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) == 0 || string(s.PeerCertificates[0].Raw) != string(block.Bytes) {
			return fmt.Errorf("the server has another certificate than %s", file)
		}
		return nil
	}
	return nil
}
