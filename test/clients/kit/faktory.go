package kit

import (
	"strconv"
	"testing"
)

// Faktory is the name of the listener of Faktory's commands.
const Faktory = "faktory"

// FaktoryServer is a server that asks Faktory clients for a password, for TLS,
// for both or for neither.
type FaktoryServer struct {
	*Server
	Password    string       // empty if none is asked for
	Certificate *Certificate // nil if the server speaks plain text
}

// FaktoryKind says what a server asks of Faktory clients.
type FaktoryKind struct {
	Name          string
	password, tls bool
}

// FaktoryKinds are the kinds of server that clients are tried on.
func FaktoryKinds() []FaktoryKind {
	return []FaktoryKind{
		{Name: "plain"},
		{Name: "password", password: true},
		{Name: "TLS", tls: true},
		{Name: "password and TLS", password: true, tls: true},
	}
}

// Start starts a server of the kind.
func (k FaktoryKind) Start(t *testing.T) FaktoryServer {
	t.Helper()
	var s FaktoryServer
	var args []string
	if k.password {
		s.Password = "p&ss wörd"
		args = append(args, "--faktory-password", s.Password)
	}
	if k.tls {
		c := NewCertificate(t)
		s.Certificate = &c
		args = append(args, "--faktory-tls-cert", c.CertFile, "--faktory-tls-key", c.KeyFile)
	}
	s.Server = Start(t, []string{Faktory}, args...)
	return s
}

// Env tells a script where the server is and how to log in.
func (s FaktoryServer) Env(t *testing.T) []string {
	t.Helper()
	host, port := s.HostPort(t, Faktory)
	env := []string{"HOST=" + host, "PORT=" + strconv.Itoa(port), "PASSWORD=" + s.Password}
	if s.Certificate != nil {
		env = append(env, "CA_FILE="+s.Certificate.CertFile)
	}
	return env
}
