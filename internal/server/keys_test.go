package server

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"

	"millrace/internal/api"
	"millrace/internal/config"
	"millrace/internal/dialect/lmstfy/lmstfytest"
	"millrace/internal/testkit"
)

// in reports whether a cookie opens the pages.
func (b *browser) in(addr, cookie string) bool {
	b.t.Helper()
	code := 0
	until(b.t, "the node answers", func() bool {
		code, _ = b.send(http.MethodGet, addr, "/queues", cookie, nil)
		return code == http.StatusOK || code == http.StatusSeeOther
	})
	return code == http.StatusOK
}

// Who has logged in at one node is logged in at all, also when another one leads, until the password changes. Who has
// logged out is not.
func TestLoginsOfNodes(t *testing.T) {
	t.Parallel()
	cert, key := testkit.NewCertificate(t, "localhost").Files(t)
	all, reloads := make([]*running, 3), make([]chan os.Signal, 3)
	settings := nodes(t, len(all), map[string]string{
		"web.password": "old", "web.tls.cert": cert, "web.tls.key": key,
	})
	for i, flags := range settings {
		cfg := load(t, flags)
		next := maps.Clone(flags)
		next["web.password"], next["data.dir"] = "new", cfg.Data.Dir
		reloads[i] = make(chan os.Signal)
		all[i] = start(t, cfg, Options{
			Reloads: reloads[i],
			Reload:  func() (*config.Config, error) { return load(t, next), nil },
		})
	}
	b := newBrowser(t, "https")
	first := leader(t, all)
	standby := all[(first+1)%len(all)].addr(1)
	until(t, "the standby is ready", func() bool {
		code, _ := b.send(http.MethodGet, standby, "/readyz", "", nil)
		return code == http.StatusOK
	})
	stays, goes := b.logIn(standby, "old"), b.logIn(all[first].addr(1), "old").Value
	if !stays.Secure {
		t.Error("a browser would send the cookie of a listener with TLS without TLS")
	}
	foreign := newBrowser(t, "http").logIn(start(t,
		load(t, map[string]string{"web.addr": "127.0.0.1:0", "web.password": "old"}), Options{}).addr(1), "old").Value
	forged := stays.Value[:len(stays.Value)-1] + string('A'+(stays.Value[len(stays.Value)-1]-'A'+1)%26)
	until(t, "who has logged out is told so", func() bool {
		code, _ := b.send(http.MethodPost, standby, "/logout", goes, url.Values{})
		return code != 0 && code < http.StatusInternalServerError
	})
	check := func(when string, want bool) {
		t.Helper()
		for i, r := range all {
			if r == nil {
				continue
			}
			if got := b.in(r.addr(1), stays.Value); got != want {
				t.Errorf("%s at node %d: logged in %v", when, i, got)
			}
			for name, cookie := range map[string]string{
				"who has logged out": goes, "a forged cookie": forged,
				"a cookie of another server": foreign, "no cookie": "",
			} {
				if b.in(r.addr(1), cookie) {
					t.Errorf("%s at node %d: %s opens the pages", when, i, name)
				}
			}
		}
	}
	check("before", true)
	all[first].signals <- syscall.SIGTERM
	if err := all[first].stop(t); err != nil {
		t.Errorf("the leader stops: %v", err)
	}
	all[first] = nil
	second := leader(t, all)
	check("under another leader", true)
	for i, r := range all {
		if r != nil {
			reloads[i] <- syscall.SIGHUP
			until(t, "the configuration is read", func() bool {
				return strings.Contains(r.log.String(), "configuration reloaded")
			})
		}
	}
	check("after the password has changed", false)
	if fresh := b.logIn(all[second].addr(1), "new").Value; !b.in(all[second].addr(1), fresh) {
		t.Error("the new password does not open the pages")
	}
}

// What was signed and named before a restart is good after it.
func TestLoginsOutliveRestart(t *testing.T) {
	t.Parallel()
	cfg := load(t, map[string]string{
		"masenko.addr": "off", "lmstfy.addr": "127.0.0.1:0", "lmstfy.admin_addr": "127.0.0.1:0",
		"web.addr": "127.0.0.1:0", "web.password": "op",
	})
	r := start(t, cfg, Options{})
	b := newBrowser(t, "http")
	cookie := b.logIn(r.addr(2), "op").Value
	if code, body := httpDo(t, http.MethodPost, "http://"+r.addr(1)+"/token/ns",
		"description=one"); code != http.StatusCreated {
		t.Fatalf("%d %s", code, body)
	}
	http.DefaultClient.CloseIdleConnections()
	id := tokenIDs(t, r.addr(2), "op")
	r.signals <- syscall.SIGTERM
	if err := r.stop(t); err != nil {
		t.Fatal(err)
	}
	r = start(t, cfg, Options{})
	if !b.in(r.addr(2), cookie) {
		t.Error("the restart has ended the session")
	}
	if got := tokenIDs(t, r.addr(2), "op"); got != id || strings.Count(id, " ") != 1 {
		t.Errorf("the id was %q and is %q", id, got)
	}
}

// tokenIDs returns the ids of all tokens, a blank behind each.
func tokenIDs(t *testing.T, addr, password string) string {
	t.Helper()
	code, body := 0, ""
	until(t, "the tokens are told", func() bool {
		code, body = ask(t, http.MethodGet, addr, "/api/v1/tokens", password)
		return code != 0 && code != http.StatusServiceUnavailable
	})
	var page api.TokenPage
	if err := json.Unmarshal([]byte(body), &page); code != http.StatusOK || err != nil {
		t.Fatalf("%d %s", code, body)
	}
	out := ""
	for _, token := range page.Tokens {
		out += token.ID + " "
	}
	return out
}

// httpUntil does what httpDo does until it is answered, by a leader.
func httpUntil(t *testing.T, method, url, body string) (code int, text string) {
	t.Helper()
	until(t, method+" "+url+" is answered", func() bool {
		req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		code, text = fetch(req)
		return code != 0 && code != http.StatusServiceUnavailable
	})
	return code, text
}

// LMSTFY's admin API works at every node, and so do the tokens it makes. Their ids are the same whoever leads.
func TestTokensOfNodes(t *testing.T) {
	t.Parallel()
	all := make([]*running, 3)
	for i, flags := range nodes(t, len(all), map[string]string{
		"masenko.addr": "off", "lmstfy.addr": "127.0.0.1:0", "lmstfy.admin_addr": "127.0.0.1:0", "lmstfy.auth": "token",
		"lmstfy.admin_accounts": "ann:secret",
	}) {
		all[i] = start(t, load(t, flags), Options{})
	}
	first := leader(t, all)
	for i, r := range all {
		base := "http://ann:secret@" + r.addr(1) + "/token/ns"
		code, body := httpUntil(t, http.MethodPost, base,
			fmt.Sprintf("description=d%d&token=token-that-is-long-%d", i, i))
		if code != http.StatusCreated && code != http.StatusConflict { // an answer was lost
			t.Errorf("a token made at node %d: %d %s", i, code, body)
		}
		if code, body := httpUntil(t, http.MethodPost, "http://"+r.addr(1)+"/token/ns",
			"description=d"); code != http.StatusUnauthorized {
			t.Errorf("without an account at node %d: %d %s", i, code, body)
		}
		for j, other := range all {
			until(t, fmt.Sprintf("the token of node %d is taken at node %d", i, j), func() bool {
				c, err := lmstfytest.Dial(other.addr(0), "ns", fmt.Sprintf("token-that-is-long-%d", i))
				if err != nil {
					return false
				}
				defer func() { _ = c.Close() }()
				_, err = c.Publish("q", "", []byte("1"))
				return err == nil
			})
		}
	}
	last := "http://ann:secret@" + all[(first+1)%len(all)].addr(1) + "/token/ns/token-that-is-long-2"
	// an answer was lost
	if code, body := httpUntil(t, http.MethodDelete, last, ""); code != http.StatusNoContent &&
		code != http.StatusNotFound {
		t.Errorf("removed at a standby: %d %s", code, body)
	}
	ids := tokenIDs(t, all[first].addr(2), "")
	if strings.Count(ids, " ") != 2 {
		t.Errorf("ids %q", ids)
	}
	all[first].signals <- syscall.SIGTERM
	if err := all[first].stop(t); err != nil {
		t.Errorf("the leader stops: %v", err)
	}
	all[first] = nil
	leader(t, all)
	for i, r := range all {
		if r == nil {
			continue
		}
		until(t, "the node is ready", func() bool {
			code, _ := ask(t, http.MethodGet, r.addr(2), "/readyz", "")
			return code == http.StatusOK
		})
		if got := tokenIDs(t, r.addr(2), ""); got != ids {
			t.Errorf("under another leader at node %d: %q, were %q", i, got, ids)
		}
	}
}

// A leader knows by which address a client has come to another node: without a login it answers under no other name.
func TestForwardedHost(t *testing.T) {
	t.Parallel()
	r := start(t, lone(t, nil), Options{})
	leader(t, []*running{r})
	n := r.server.node
	for host, want := range map[string]string{"192.0.2.7": "200", "192.0.2.8": "421"} {
		c, err := n.port.Forward(n.cfg.Cluster.Peers[0].Addr, n.gates[1].name, "192.0.2.1:99", "192.0.2.7:7420")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintf(c, "GET /queues HTTP/1.0\r\nHost: %s\r\n\r\n", host); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(c).ReadString('\n')
		if err != nil || !strings.Contains(line, want) {
			t.Errorf("%s: %q, %v", host, line, err)
		}
		_ = c.Close() // its work is done
	}
}
