package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"millrace/internal/api"
	"millrace/internal/dialect/lmstfy/lmstfytest"
)

// What an operator does with tokens and limits holds for clients at once, and what the protocol's own admin API
// does is seen by operators.
func TestOperatorTokens(t *testing.T) {
	t.Parallel()
	cfg := load(t, map[string]string{
		"masenko.addr": "off", "lmstfy.addr": "127.0.0.1:0", "lmstfy.admin_addr": "127.0.0.1:0", "lmstfy.auth": "token",
		"lmstfy.pools": "cold", "web.addr": "127.0.0.1:0",
	})
	r := start(t, cfg, Options{})
	base := "http://" + r.addr(2) + "/api/v1/tokens"
	call := func(want int, method, path, body string, into any) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, base+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		code, text := httpSend(t, req)
		if code != want {
			t.Fatalf("%s %s: %d %s", method, path, code, text)
		}
		if into != nil {
			if err := json.Unmarshal([]byte(text), into); err != nil {
				t.Fatal(err)
			}
		}
	}
	code := func(err error) string { return strings.Fields(fmt.Sprint(err))[0] }

	var made api.NewToken
	call(http.StatusCreated, "POST", "", `{"namespace":"ns","pool":"cold","description":"reports"}`, &made)
	if !strings.HasPrefix(made.Text, "cold:") || made.Namespace != "ns" ||
		!strings.HasSuffix(made.Text, made.Masked[len("…"):]) {
		t.Errorf("%+v", made)
	}
	c, err := lmstfytest.Dial(r.addr(0), "ns", made.Text)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }() // the server may have closed it
	if _, err := c.Publish("q", "", []byte("1")); err != nil {
		t.Fatal(err)
	}

	call(http.StatusOK, "PUT", "/"+made.ID+"/limits", `{"reads":0,"writes":1,"interval_seconds":3600}`, nil)
	if _, err := c.Publish("q", "", []byte("2")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Publish("q", "", []byte("3")); code(err) != "429" {
		t.Errorf("beyond its limits: %v", err)
	}
	var got api.Token
	call(http.StatusOK, "GET", "/"+made.ID, "", &got)
	if got.RefusedWrites != 1 || got.Limits == nil || got.Limits.Writes != 1 {
		t.Errorf("%+v", got)
	}
	call(http.StatusOK, "DELETE", "/"+made.ID+"/limits", "", nil)
	if _, err := c.Publish("q", "", []byte("4")); err != nil {
		t.Error(err)
	}

	call(http.StatusConflict, "POST", "",
		`{"namespace":"ns","pool":"cold","description":"again","token":"`+strings.TrimPrefix(made.Text,
			"cold:")+`"}`, nil)
	call(http.StatusBadRequest, "POST", "", `{"namespace":"ns","pool":"warm","description":"no such pool"}`, nil)
	call(http.StatusBadRequest, "POST", "", `{"namespace":"n s","description":"no such name"}`, nil)
	if status, body := httpDo(t, http.MethodPost, "http://"+r.addr(1)+"/token/other",
		"description=theirs"); status != http.StatusCreated {
		t.Fatalf("%d %s", status, body)
	}
	var list api.TokenPage
	call(http.StatusOK, "GET", "", "", &list)
	if len(list.Tokens) != 2 || list.Tokens[1].Namespace != "other" || !list.Required ||
		strings.Join(list.Pools, " ") != "default cold" {
		t.Errorf("%+v", list)
	}

	call(http.StatusNoContent, "DELETE", "/"+made.ID, "", nil)
	if _, err := c.Publish("q", "", []byte("5")); code(err) != "401" {
		t.Errorf("with a token that was removed: %v", err)
	}
}
