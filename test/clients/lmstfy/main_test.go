// Package lmstfy runs the Go client of LMSTFY and curl against the binary, with
// token authentication on.
package lmstfy

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"testing"

	"github.com/bitleak/lmstfy/client"

	"millrace/test/clients/kit"
)

func TestMain(m *testing.M) { os.Exit(kit.Main(m)) }

// The names under which the server announces its two listeners.
const (
	public = "lmstfy"
	admin  = "admin"
)

// namespace is the one that the tests have a token for.
const namespace = "shop"

// service is a running server and a token for the namespace.
type service struct {
	*kit.Server
	token string
}

// start starts a server and has its administration interface make a token.
func start(t *testing.T) service {
	t.Helper()
	s := service{Server: kit.Start(t, []string{public, admin}, "--lmstfy-auth", "token")}
	s.token = s.newToken(t, namespace)
	return s
}

// newToken makes a token as an operator would.
func (s service) newToken(t *testing.T, namespace string) string {
	t.Helper()
	form := url.Values{"description": {"for the tests"}}.Encode()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.Addr(admin)+"/token/"+namespace,
		bytes.NewBufferString(form))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // read to the end
	var reply struct{ Token string }
	if err := json.NewDecoder(resp.Body).Decode(&reply); err != nil || resp.StatusCode != http.StatusCreated ||
		reply.Token == "" {
		t.Fatalf("make a token: status %d, token %q, %v", resp.StatusCode, reply.Token, err)
	}
	return reply.Token
}

// client returns a client with the token.
func (s service) client(t *testing.T) *client.LmstfyClient {
	t.Helper()
	return s.clientOf(t, namespace, s.token)
}

// clientOf returns a client of another namespace or with another token.
func (s service) clientOf(t *testing.T, namespace, token string) *client.LmstfyClient {
	t.Helper()
	host, port := s.HostPort(t, public)
	return client.NewLmstfyClient(host, port, namespace, token)
}
