package server

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"millrace/internal/dialect/lmstfy/lmstfytest"
)

// httpDo sends a request and returns the code and the body.
func httpDo(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return httpSend(t, req)
}

// httpSend does the same with a request of one's own.
func httpSend(t *testing.T, req *http.Request) (int, string) {
	t.Helper()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // it was read to its end
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// The settings reach the protocol, both its listeners are served, and the signal that ends the
// server answers whoever waits.
func TestLmstfy(t *testing.T) {
	t.Parallel()
	original := filepath.Join(t.TempDir(), "lmstfy.toml")
	text := "TTLSecond = 50\nTriesNum = 3\n[Pool.default]\nAddr = " +
		"\"redis\"\n[Pool.cold]\n[Accounts]\nann = \"secret\"\n"
	if err := os.WriteFile(original, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := load(t, map[string]string{
		"masenko.addr": "off", "lmstfy.addr": "127.0.0.1:0", "lmstfy.admin_addr": "127.0.0.1:0",
		"lmstfy.config": original, "lmstfy.max_body": "10B",
	})
	r := start(t, cfg, Options{})
	for _, line := range []string{
		"lmstfy     " + r.addr(0) + " (namespace in the request, authentication)\n",
		"admin      http://" + r.addr(1) + "/ (lmstfy)\n",
	} {
		if !strings.Contains(r.banner, line) {
			t.Errorf("the banner lacks %q:\n%s", line, r.banner)
		}
	}
	if got := r.log.String(); !strings.Contains(got, "setting of the original server ignored") ||
		!strings.Contains(got, "key=Pool.default.*") {
		t.Errorf("log:\n%s", got)
	}
	const token = "12345678901234567890"
	form := "description=test&token=cold:" + token
	if code, body := httpDo(t, http.MethodPost, "http://"+r.addr(1)+"/token/ns",
		form); code != http.StatusUnauthorized {
		t.Errorf("without an account: %d %s", code, body)
	}
	if code, body := httpDo(t, http.MethodPost, "http://ann:secret@"+r.addr(1)+"/token/ns",
		form); code != http.StatusCreated {
		t.Errorf("with an account: %d %s", code, body)
	}
	stranger, err := lmstfytest.Dial(r.addr(0), "ns", "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stranger.Close() }() // the server has closed it
	if _, err := stranger.Publish("q", "", nil); err == nil {
		t.Error("published without a token")
	}
	c, err := lmstfytest.Dial(r.addr(0), "ns", "cold:"+token)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }() // the server has closed it
	id, err := c.Publish("q", "", []byte("0123456789"))
	if err != nil {
		t.Fatal(err)
	}
	if j, err := c.PeekJob("q", id); err != nil || j.TTL > 50 || j.TTL < 40 || j.RemainTries != 3 {
		t.Errorf("published %+v, %v", j, err)
	}
	if _, err := c.Publish("q", "", []byte("0123456789x")); err == nil {
		t.Error("a job that is too large was taken")
	}
	if code, body := httpDo(t, http.MethodGet, "http://"+r.addr(1)+"/version", ""); code != http.StatusOK ||
		!strings.Contains(body, `"1.2.3"`) {
		t.Errorf("version: %d %s", code, body)
	}

	waiting := make(chan error, 1)
	go func() {
		_, err := c.Consume("none", time.Minute, time.Minute)
		waiting <- err
	}()
	until(t, "a consumer waits", func() bool { return r.server.engine.Stats().Waiters == 1 })
	r.signals <- syscall.SIGTERM
	if err := r.stop(t); err != nil {
		t.Errorf("stop: %v", err)
	}
	if err := <-waiting; !errors.Is(err, lmstfytest.ErrEmpty) {
		t.Errorf("the consumer got %v", err)
	}
}
