package config

import "fmt"

// TLS names the files of a listener's TLS material; without a certificate the
// listener speaks plain text.
type TLS struct {
	Cert     string
	Key      string
	ClientCA string
}

// Enabled reports whether the listener speaks TLS.
func (t TLS) Enabled() bool { return t.Cert != "" }

// Listener is one socket to open.
type Listener struct {
	Protocol string
	// Role tells apart what a protocol serves on different addresses; empty is
	// the protocol itself.
	Role      string
	Key       Key // the key that set the address
	Addr      string
	Namespace string
	TLS       TLS
	// Authenticated tells that clients must prove who they are.
	Authenticated bool
	// Remedy says how else than with certificates to make them do so; it may be empty.
	Remedy string
}

// Name returns what the listener is called in messages.
func (l Listener) Name() string {
	if l.Role == "" {
		return l.Protocol
	}
	return l.Protocol + " " + l.Role
}

// tlsKeys returns the keys of the TLS material of a protocol.
func tlsKeys(protocol string, at func(*Config) *TLS) []Key {
	return []Key{
		pathKey(protocol+".tls.cert", "",
			"PEM file with the certificate chain; setting it turns TLS on. Renewed files are picked up "+
				"without a restart.",
			func(c *Config) *string { return &at(c).Cert }),
		pathKey(protocol+".tls.key", "",
			"PEM file with the certificate's private key.",
			func(c *Config) *string { return &at(c).Key }),
		pathKey(protocol+".tls.client_ca", "",
			"PEM file with certificate authorities. Clients must then present a certificate that one of them signed, "+
				"which counts as authentication.",
			func(c *Config) *string { return &at(c).ClientCA }),
	}
}

// checkTLS looks at the TLS keys of a protocol together.
func (l *loader) checkTLS(protocol string, t TLS) {
	switch prefix := protocol + ".tls."; {
	case t.Cert != "" && t.Key == "":
		l.problem("%[1]scert is set but %[1]skey is not: TLS needs both", prefix)
	case t.Cert == "" && t.Key != "":
		l.problem("%[1]skey is set but %[1]scert is not: TLS needs both", prefix)
	case t.Cert == "" && t.ClientCA != "":
		l.problem("%[1]sclient_ca is set but %[1]scert and %[1]skey are not: client certificates need TLS", prefix)
	}
}

// checkReach enforces the loopback rule: whoever can reach a listener without
// authentication owns every job, so another address must be asked for
// explicitly.
func (l *loader) checkReach(at Listener, from Source) {
	if l.config.Listen.Insecure {
		return
	}
	if err := at.CheckReach(); err != nil {
		l.problem("%s: %v", from, err)
	}
}

// CheckReach returns why the listener's address needs listen.insecure, or nil.
func (l Listener) CheckReach() error {
	if l.Authenticated || isLoopback(l.Addr) {
		return nil
	}
	where := "can be reached from other machines"
	if isEverywhere(l.Addr) {
		where = "listens on every network interface"
	}
	remedy := "listen on 127.0.0.1 with " + l.Key.howToSet()
	if l.Role == "" {
		remedy += fmt.Sprintf(", or require client certificates with %s.tls.client_ca", l.Protocol)
	}
	if l.Remedy != "" {
		remedy += ", or " + l.Remedy
	}
	return fmt.Errorf("%s: %q %s without authentication: %s, or accept the risk with listen.insecure = true "+
		"(MILLRACE_LISTEN_INSECURE=true, --listen-insecure)",
		l.Key.Name, l.Addr, where, remedy)
}

// checkClash reports two listeners on one address. Port 0 is a new port each time.
func (l *loader) checkClash() {
	seen := make(map[string]string)
	for _, at := range l.config.listeners {
		if portOf(at.Addr) == "0" {
			continue
		}
		if first, ok := seen[at.Addr]; ok {
			l.problem("%s and %s both want the address %s: change one of them", first, at.Key.Name, at.Addr)
			continue
		}
		seen[at.Addr] = at.Key.Name
	}
}
