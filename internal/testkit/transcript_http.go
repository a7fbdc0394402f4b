package testkit

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// HTTP lets the clients of a transcript speak HTTP. The file is a series of requests and their answers:
//
//	PUT /api/ns/q?tries=3     a request, by the client called a
//	X-Token: t                a header of it
//	body TEXT                 its body, with a Content-Length
//	-> 201 TEXT               its answer: the code and the whole body
//	-> X-Name: value          a header of that answer
//	-> waits                  it has no answer yet
//	b GET /api/ns/q           a request by another client
//	b -> 200 TEXT             the answer to a request that waited
//
// An answer that ends in an opening bracket goes on to the line that closes it. $NAME in an answer stands for an id:
// any the first time, the same from then on, and that one in requests. A body in quotes that begins with an escape is
// in Go's notation, x*70000 is a letter 70000 times, and long(300) is a name of 300 bytes.
//
// A client whose connection has ended connects again, and all do after a verb. The flag -update leaves the file alone.
type HTTP struct {
	// ID is the regular expression of an id.
	ID string
	// Admin makes the connections of clients whose names begin with admin.
	Admin func() (*Conn, error)
	// Check checks what all answers to other clients have in common.
	Check func(r *http.Response) error

	request *request // the one being read
	open    string   // an answer that goes on
	ids     map[string]string
	last    http.Header // of the last answer
}

// request is a request as the transcript spells it.
type request struct {
	client, method, target string
	headers                []string
	body                   []byte
	hasBody                bool
}

var (
	requestLine = regexp.MustCompile(`^(?:(\w+) )?([A-Z]+) (/\S*|\*)$`)
	headerLine  = regexp.MustCompile(`^[A-Za-z-]+: `)
	answerLine  = regexp.MustCompile(`(?s)^(?:(\w+) )?-> (.*)$`)
	openAnswer  = regexp.MustCompile(`(?m)^(?:\w+ )?-> \d+ [{\[]$`)
	repeated    = regexp.MustCompile(`^(.)\*(\d+)$`)
	longName    = regexp.MustCompile(`long\((\d+)\)`)
	idName      = regexp.MustCompile(`\$[a-z]\w*`)
	quotedName  = regexp.MustCompile(`\\\$[a-z]\w*`)
)

// play plays a line if it is of a request or of an answer.
func (h *HTTP) play(p *player, line string) (known bool, err error) {
	if h.open += line; openAnswer.MatchString(h.open) && line != "}" && line != "]" {
		h.open += "\n"
		return true, nil
	}
	line, h.open = h.open, ""
	if m := answerLine.FindStringSubmatch(line); m != nil {
		return true, h.answer(p, m[1], m[2])
	}
	if h.request != nil && line != "" && line[0] != '#' {
		return true, h.more(line)
	}
	if m := requestLine.FindStringSubmatch(line); m != nil {
		h.request = &request{client: cmp.Or(m[1], "a"), method: m[2], target: h.expand(m[3])}
		return true, nil
	}
	return false, nil
}

// more adds a header or a body to the request that is being read.
func (h *HTTP) more(line string) (err error) {
	text, isBody := strings.CutPrefix(line, "body ")
	if !isBody {
		if !headerLine.MatchString(line) {
			return errors.New("neither a header nor a body nor an answer")
		}
		h.request.headers = append(h.request.headers, h.expand(line))
		return nil
	}
	text = h.expand(text)
	if strings.HasPrefix(text, `"\`) || strings.HasPrefix(text, `""`) {
		text, err = strconv.Unquote(text)
	} else if m := repeated.FindStringSubmatch(text); m != nil {
		var n int
		n, err = strconv.Atoi(m[2])
		text = strings.Repeat(m[1], n)
	}
	h.request.body, h.request.hasBody = []byte(text), true
	return err
}

// expand replaces the names of ids, and those of a length.
func (h *HTTP) expand(text string) string {
	text = longName.ReplaceAllStringFunc(text, func(s string) string {
		n, _ := strconv.Atoi(s[len("long(") : len(s)-1]) // digits
		return strings.Repeat("n", n)
	})
	return idName.ReplaceAllStringFunc(text, func(name string) string { return cmp.Or(h.ids[name], name) })
}

// send sends the request that has been read.
func (h *HTTP) send(p *player) error {
	r := h.request
	h.request = nil
	c, err := p.client(r.client)
	if err != nil {
		return err
	}
	if c.method != "" {
		return errors.New("its last request has not been answered")
	}
	c.method = r.method
	b := fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: test\r\n", r.method, r.target)
	for _, line := range r.headers {
		b = append(b, line+"\r\n"...)
	}
	if r.hasBody || r.method == http.MethodPut || r.method == http.MethodPost {
		b = fmt.Appendf(b, "Content-Length: %d\r\n", len(r.body))
	}
	return p.send(r.client, append(append(b, "\r\n"...), r.body...))
}

// answer checks an answer, or a header of the last one.
func (h *HTTP) answer(p *player, client, want string) error {
	if h.request != nil {
		client = cmp.Or(client, h.request.client)
		if err := h.send(p); err != nil {
			return err
		}
	} else if headerLine.MatchString(want) {
		name, value, _ := strings.Cut(want, ": ")
		if got := h.last.Get(name); !h.matches(value, got) {
			return fmt.Errorf("%s is %q", name, got)
		}
		return nil
	}
	c := p.clients[cmp.Or(client, "a")]
	switch {
	case c == nil || c.method == "":
		return errors.New("nothing has been asked")
	case want != "waits" && len(c.got) > 0:
		return h.check(c, want)
	case want != "waits":
		return errors.New("no answer")
	case len(c.got) > 0:
		return fmt.Errorf("answered %q", c.got)
	}
	return nil
}

// check checks the answer that a client has received.
func (h *HTTP) check(c *client, want string) error {
	r := bufio.NewReader(bytes.NewReader(c.got))
	resp, err := http.ReadResponse(r, &http.Request{Method: c.method})
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // it was read to its end
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if rest, _ := io.ReadAll(r); len(rest) > 0 {
		return fmt.Errorf("%q follows the answer", rest)
	}
	c.method, c.got, h.last = "", nil, resp.Header
	if !strings.HasPrefix(c.name, "admin") && h.Check != nil {
		if err := h.Check(resp); err != nil {
			return err
		}
	}
	if got := strings.TrimSpace(fmt.Sprintf("%d %s", resp.StatusCode, body)); !h.matches(want, got) {
		return fmt.Errorf("answered %s", got)
	}
	return nil
}

// matches compares an answer with what is expected, and learns new ids from it.
func (h *HTTP) matches(want, got string) bool {
	var names []string
	pattern := quotedName.ReplaceAllStringFunc(regexp.QuoteMeta(want), func(quoted string) string {
		name := quoted[len(`\`):]
		if id, ok := h.ids[name]; ok {
			return regexp.QuoteMeta(id)
		}
		names = append(names, name)
		return "(" + h.ID + ")"
	})
	found := regexp.MustCompile(`(?s)^` + pattern + `$`).FindStringSubmatch(got)
	if found == nil {
		return false
	}
	if h.ids == nil {
		h.ids = make(map[string]string)
	}
	for i, name := range names {
		h.ids[name] = found[i+1]
	}
	return true
}
