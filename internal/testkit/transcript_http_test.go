package testkit

import (
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// playHTTP plays requests of a server that answers with their bodies; of a PUT it makes an id, and a GET waits.
func playHTTP(t *testing.T, text string) (result error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l, ids := Listen(0), 0
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Path", r.URL.Path)
			switch r.Method {
			case http.MethodPut:
				ids++
				_, _ = fmt.Fprintf(w, "id%d", ids) // a client that is gone does not mind
			case http.MethodGet:
				select {
				case <-time.After(time.Minute):
				case <-r.Context().Done():
				}
			}
			_, _ = io.Copy(w, r.Body) // the same
		})}
		go func() { _ = server.Serve(l) }() // until it is closed
		h := &HTTP{ID: `id\d`, Admin: l.Dial, Check: func(r *http.Response) error {
			if r.Header.Get("X-Path") == "/strange" {
				return io.ErrUnexpectedEOF
			}
			return nil
		}}
		p := &player{
			Transcript: &Transcript{Dial: l.Dial, HTTP: h}, t: t, eol: []byte("\n"), clients: make(map[string]*client),
		}
		result = p.playAll(text)
		_ = server.Close() // its connections are closed
		synctest.Wait()
	})
	return result
}

func TestTranscriptHTTP(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ text, fails string }{
		"simple":            {"# note\nPUT /a\n-> 200 id1\n-> X-Path: /a\n", ""},
		"wrong":             {"PUT /a\n-> 200 id2\n", "answered 200 id1"},
		"wrong status":      {"PUT /a\n-> 201 id1\n", "answered 200 id1"},
		"wrong header":      {"PUT /a\n-> 200 id1\n-> X-Path: /b\n", `X-Path is "/a"`},
		"ids":               {"PUT /a\n-> 200 $x\nPOST /$x\nbody <$x>\n-> 200 <id1>\n-> X-Path: /$x\n", ""},
		"no id":             {"POST /a\nbody id\n-> 200 $x\n", "answered 200 id"},
		"an id again":       {"PUT /a\n-> 200 $x\nPUT /a\n-> 200 $x\n", "answered 200 id2"},
		"bodies":            {"POST /a\nbody x*3\n-> 200 xxx\nPOST /a\nbody \"\\x41\"\n-> 200 A\n", ""},
		"indented":          {"POST /a\nbody \"\\x7b\\n x\\n}\"\n-> 200 {\n x\n}\n", ""},
		"waits":             {"b GET /a\n-> waits\nPUT /a\n-> 200 id1\nadvance 1m\nb -> 200\n", ""},
		"does not wait":     {"PUT /a\n-> waits\n", "answered"},
		"no answer yet":     {"GET /a\n-> 200\n", "no answer"},
		"not told":          {"GET /a\n-> waits\nadvance 2m\nadvance 1s\n", "unexpectedly"},
		"asked twice":       {"GET /a\n-> waits\nPUT /a\n-> 200 id1\n", "has not been answered"},
		"nothing asked":     {"-> 200\n", "nothing has been asked"},
		"nonsense":          {"PUT /a\nadvance 1s\n", "neither a header"},
		"common":            {"PUT /strange\n-> 200 id1\n", "unexpected EOF"},
		"not common":        {"admin PUT /strange\n-> 200 id1\n", ""},
		"hangs up":          {"GET /a\n-> waits\na close\nadvance 2m\nPUT /a\n-> 200 id1\n", ""},
		"headers, reopened": {"PUT /a\nConnection: close\n-> 200 id1\nPUT /a\n-> 200 id2\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failsWith(t, playHTTP(t, test.text), test.fails)
		})
	}
}
