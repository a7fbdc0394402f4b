package lmstfy_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/dialect/dialecttest"
	"millrace/internal/dialect/lmstfy"
	"millrace/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// TestTranscripts plays every file in testdata against the real engine, in a bubble. A
// file is a series of requests and their answers:
//
//	# a comment
//	PUT /api/ns/q?tries=3     a request, by the client called a
//	X-Token: t                a header of it
//	body TEXT                 its body, with a Content-Length
//	-> 201 TEXT               its answer: the code and the whole body
//	-> X-Name: value          a header of that answer
//	-> waits                  it has no answer yet
//	b GET /api/ns/q           a request by another client
//	b -> 200 TEXT             the answer to a request that waited
//	b close                   the client hangs up
//	advance 90s               bubble time passes
//	server KEY=VALUE...       serves with other options from now on
//	restart                   stops the server and opens it again on the same store
//
// A client whose name begins with "admin" speaks to the admin API. $NAME in an answer stands for an
// id: any the first time, the same from then on, and that one in requests. A body in quotes is
// in Go's notation. Every answer is also checked for what all answers have in common.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	dialecttest.EachFile(t, play, "*.txt")
}

// player runs one transcript.
type player struct {
	t       *testing.T
	server  *dialecttest.Server
	opts    lmstfy.Options
	public  *testkit.Listener
	admin   *testkit.Listener
	stop    func() // ends the admin server
	clients map[string]*wireClient
	ids     map[string]string // by the names the transcript gives them
	seen    map[string]bool   // request ids
	last    http.Header       // of the last answer
	request *wireRequest      // the one being read
}

type wireClient struct {
	conn   *testkit.Conn
	method string // of the request that has not been answered
}

// wireRequest is a request as the transcript spells it.
type wireRequest struct {
	client, line string
	headers      []string
	body         []byte
	hasBody      bool
}

func play(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p := &player{
		t: t, server: dialecttest.Start(t), clients: map[string]*wireClient{}, ids: map[string]string{},
		seen: map[string]bool{},
	}
	p.serve()
	defer func() {
		p.closeAll()
		p.server.Stop(t)
	}()
	n, indented := 0, ""
	for line := range strings.Lines(string(text)) {
		n++
		line = strings.TrimRight(line, "\n")
		// An indented answer goes on to its closing bracket.
		if indented += line; openAnswer.MatchString(indented) && line != "}" && line != "]" {
			indented += "\n"
			continue
		}
		line, indented = indented, ""
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := p.play(line); err != nil {
			t.Fatalf("%s:%d: %s: %v", file, n, line, err)
		}
	}
	for name, c := range p.clients {
		if data, _ := c.conn.TryRead(); len(data) > 0 {
			t.Errorf("%s: client %s was sent %q at the end", file, name, data)
		}
	}
}

func (p *player) serve() {
	p.opts.Engine = p.server.Engine
	d := lmstfy.New(p.opts)
	p.public = p.server.Serve(d, 8<<20)
	p.admin = testkit.Listen(1 << 20)
	hs := &http.Server{Handler: d.AdminHandler()}
	ended := make(chan error, 1)
	go func() { ended <- hs.Serve(p.admin) }()
	p.stop = func() {
		_ = hs.Shutdown(context.Background()) // its connections are closed
		<-ended
	}
}

func (p *player) closeAll() {
	for _, c := range p.clients {
		_ = c.conn.Close() // it cannot fail
	}
	p.clients = map[string]*wireClient{}
	synctest.Wait()
	p.stop()
}

var (
	requestLine = regexp.MustCompile(`^(?:(\w+) )?([A-Z]+) (/\S*|\*)$`)
	headerLine  = regexp.MustCompile(`^[A-Za-z-]+: `)
	answerLine  = regexp.MustCompile(`(?s)^(?:(\w+) )?-> (.*)$`)
	openAnswer  = regexp.MustCompile(`(?m)^(?:\w+ )?-> \d+ [{\[]$`)
	closeLine   = regexp.MustCompile(`^(\w+) close$`)
)

func (p *player) play(line string) error {
	if p.request != nil && !answerLine.MatchString(line) {
		switch body, isBody := strings.CutPrefix(line, "body "); {
		case isBody:
			return p.setBody(body)
		case headerLine.MatchString(line):
			p.request.headers = append(p.request.headers, line)
			return nil
		}
		return errors.New("neither a header nor a body nor an answer")
	}
	if m := requestLine.FindStringSubmatch(line); m != nil {
		p.request = &wireRequest{client: or(m[1], "a"), line: m[2] + " " + p.expand(m[3])}
		return nil
	}
	if m := answerLine.FindStringSubmatch(line); m != nil {
		return p.answer(or(m[1], ""), m[2])
	}
	if m := closeLine.FindStringSubmatch(line); m != nil {
		if p.clients[m[1]] == nil {
			return errors.New("no such client")
		}
		_ = p.clients[m[1]].conn.Close() // it cannot fail
		delete(p.clients, m[1])
		synctest.Wait()
		return nil
	}
	verb, args, _ := strings.Cut(line, " ")
	switch verb {
	case "advance":
		d, err := time.ParseDuration(args)
		if err == nil {
			testkit.Advance(p.t, d)
		}
		return err
	case "server":
		p.closeAll()
		p.opts = lmstfy.Options{}
		for arg := range strings.FieldsSeq(args) {
			if err := setOption(&p.opts, arg); err != nil {
				return err
			}
		}
		p.serve()
		return nil
	case "restart":
		p.closeAll()
		p.server.Restart(p.t)
		p.serve()
		return nil
	}
	return errors.New("not a line of a transcript")
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func (p *player) setBody(text string) (err error) {
	text = p.expand(text)
	if strings.HasPrefix(text, `"\`) || strings.HasPrefix(text, `""`) {
		if text, err = strconv.Unquote(text); err != nil {
			return err
		}
	}
	// "x*70000" is a letter, 70000 times.
	if m := regexp.MustCompile(`^(.)\*(\d+)$`).FindStringSubmatch(text); m != nil {
		n, err := strconv.Atoi(m[2])
		if err != nil {
			return err
		}
		text = strings.Repeat(m[1], n)
	}
	p.request.body, p.request.hasBody = []byte(text), true
	return nil
}

var variable = regexp.MustCompile(`\$[a-z]\w*`)

// expand replaces the names of ids, and "long(N)" by a name of N bytes.
func (p *player) expand(text string) string {
	text = regexp.MustCompile(`long\((\d+)\)`).ReplaceAllStringFunc(text, func(s string) string {
		n, _ := strconv.Atoi(s[5 : len(s)-1]) // digits
		return strings.Repeat("n", n)
	})
	return variable.ReplaceAllStringFunc(text, func(name string) string {
		if id, ok := p.ids[name]; ok {
			return id
		}
		return name
	})
}

// send sends the request that has been read.
func (p *player) send() error {
	r := p.request
	p.request = nil
	c := p.clients[r.client]
	if c != nil && c.method == "" {
		if _, ended := c.conn.TryRead(); ended {
			c = nil // it was idle for too long
		}
	}
	if c == nil {
		l := p.public
		if strings.HasPrefix(r.client, "admin") {
			l = p.admin
		}
		conn, err := l.Dial()
		if err != nil {
			return err
		}
		c = &wireClient{conn: conn}
		p.clients[r.client] = c
	}
	if c.method != "" {
		return errors.New("its last request has not been answered")
	}
	method, target, _ := strings.Cut(r.line, " ")
	c.method = method
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: test\r\n", method, target)
	for _, h := range r.headers {
		fmt.Fprintf(&b, "%s\r\n", p.expand(h))
	}
	if r.hasBody || method == http.MethodPut || method == http.MethodPost {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(r.body))
	}
	b.WriteString("\r\n")
	b.Write(r.body)
	_, err := c.conn.Write(b.Bytes())
	synctest.Wait()
	return err
}

// answer checks an answer, or a header of the last one.
func (p *player) answer(client, want string) error {
	if p.request != nil {
		client = or(client, p.request.client)
		if err := p.send(); err != nil {
			return err
		}
	} else if headerLine.MatchString(want) {
		name, value, _ := strings.Cut(want, ": ")
		if got := p.last.Get(name); !p.matches(value, got) {
			return fmt.Errorf("%s is %q", name, got)
		}
		return nil
	}
	c := p.clients[or(client, "a")]
	if c == nil || c.method == "" {
		return errors.New("nothing has been asked")
	}
	data, _ := c.conn.TryRead()
	if want == "waits" {
		if len(data) > 0 {
			return fmt.Errorf("answered %q", data)
		}
		return nil
	}
	if len(data) == 0 {
		return errors.New("no answer")
	}
	return p.check(c, data, client, want)
}

func (p *player) check(c *wireClient, data []byte, client, want string) error {
	r := bufio.NewReader(bytes.NewReader(data))
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
	c.method, p.last = "", resp.Header
	if !strings.HasPrefix(client, "admin") {
		if err := p.common(resp); err != nil {
			return err
		}
	}
	if got := strings.TrimSpace(fmt.Sprintf("%d %s", resp.StatusCode, body)); !p.matches(want, got) {
		return fmt.Errorf("answered %s", got)
	}
	return nil
}

// common checks what all answers of the public API have in common.
func (p *player) common(resp *http.Response) error {
	id := resp.Header.Get("X-Request-ID")
	if _, ok := dialect.ParseULID(id); !ok || p.seen[id] {
		return fmt.Errorf("request id %q", id)
	}
	p.seen[id] = true
	content, length := resp.Header.Get("Content-Type"), resp.Header.Get("Content-Length")
	if resp.StatusCode == http.StatusNoContent {
		if content != "" || length != "" {
			return fmt.Errorf("no content of type %q and length %q", content, length)
		}
		return nil
	}
	if content != "application/json; charset=utf-8" || length == "" {
		return fmt.Errorf("content of type %q and length %q", content, length)
	}
	return nil
}

// matches compares an answer with what is expected, and learns new ids from it.
func (p *player) matches(want, got string) bool {
	var names []string
	var pattern strings.Builder
	at := 0
	for _, m := range variable.FindAllStringIndex(want, -1) {
		pattern.WriteString(regexp.QuoteMeta(want[at:m[0]]))
		name := want[m[0]:m[1]]
		if id, ok := p.ids[name]; ok {
			pattern.WriteString(regexp.QuoteMeta(id))
		} else {
			names = append(names, name)
			pattern.WriteString(`(1?[0-7][0-9A-HJKMNP-TV-Z]{25})`)
		}
		at = m[1]
	}
	pattern.WriteString(regexp.QuoteMeta(want[at:]))
	found := regexp.MustCompile(`(?s)^` + pattern.String() + `$`).FindStringSubmatch(got)
	for i, name := range names {
		if found != nil {
			p.ids[name] = found[i+1]
		}
	}
	return found != nil
}

func setOption(o *lmstfy.Options, arg string) error {
	key, value, _ := strings.Cut(arg, "=")
	switch key {
	case "auth":
		o.Auth = true
	case "pools":
		o.Pools = strings.Split(value, ",")
	case "account":
		user, password, _ := strings.Cut(value, ":")
		o.Accounts = map[string]string{user: password}
	case "defaults":
		_, err := fmt.Sscanf(value, "%d,%d,%d,%d,%d", &o.Defaults.TTL, &o.Defaults.Delay, &o.Defaults.Tries,
			&o.Defaults.TTR, &o.Defaults.Timeout)
		return err
	default:
		return dialecttest.SetOption(o, key, value)
	}
	return nil
}
