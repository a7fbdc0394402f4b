package server

import (
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
)

// curlCommand is a command line of the documents, as far as they use curl.
type curlCommand struct {
	method, url, body, kind string
}

// parseCurl reads the arguments of a curl command.
func parseCurl(t *testing.T, line string) curlCommand {
	t.Helper()
	c := curlCommand{method: http.MethodGet}
	args := regexp.MustCompile(`'[^']*'|\S+`).FindAllString(line, -1)[1:]
	for i := range args {
		args[i] = strings.Trim(args[i], "'")
	}
	for i := 0; i < len(args); i++ {
		switch args[i] {
		case "-s":
		case "-X":
			i++
			c.method = args[i]
		case "-d":
			i++
			c.body = args[i]
		case "-H":
			i++
			name, value, _ := strings.Cut(args[i], ": ")
			if name != "Content-Type" {
				t.Fatalf("header %s", args[i])
			}
			c.kind = value
		default:
			if c.url != "" || strings.HasPrefix(args[i], "-") {
				t.Fatalf("%q in %s", args[i], line)
			}
			c.url = args[i]
		}
	}
	return c
}

// TestOperatorDocs runs every example of the document against a server.
func TestOperatorDocs(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/operator-api.md")
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, load(t, map[string]string{"web.addr": "127.0.0.1:0"}), Options{})
	dial(t, r.addr(0)).expect(t, `PUSH {"name":"n","queue":"mails"}`, `OK {"id":1}`)
	id, count := "", 0
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		for line := range strings.SplitSeq(strings.ReplaceAll(block[1], "\\\n", ""), "\n") {
			if line == "" {
				continue
			}
			count++
			c := parseCurl(t, strings.ReplaceAll(line, "$id", id))
			url := strings.Replace(c.url, "localhost:7420", r.addr(1), 1)
			if url == c.url {
				t.Fatalf("%s does not ask our server", line)
			}
			req, err := http.NewRequestWithContext(t.Context(), c.method, url, strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			if c.kind != "" {
				req.Header.Set("Content-Type", c.kind)
			}
			code, body := httpSend(t, req)
			if code >= 300 || strings.Contains(body, `"done":false`) {
				t.Errorf("%s: %d %s", line, code, body)
			}
			if m := regexp.MustCompile(`^\{"id":"(\w+)"`).FindStringSubmatch(body); m != nil {
				id = m[1]
			}
		}
	}
	if count < 25 || id == "" {
		t.Errorf("only %d examples were found", count)
	}
	http.DefaultClient.CloseIdleConnections()
}
