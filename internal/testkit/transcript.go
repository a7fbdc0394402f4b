package testkit

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"
	"unicode/utf8"
)

var update = flag.Bool("update", false, "rewrite the files that answers, screens and documents are compared with")

// Updating reports whether the test is to rewrite the files that it compares with.
func Updating() bool { return *update }

// Transcript is a wire session in a text file. Each line is one of
//
//	# a comment
//	a> TEXT          client a sends TEXT and LF (and what a>> has collected)
//	a>> TEXT         client a will send TEXT and LF together with its next a>
//	a send "BYTES"   client a sends exactly these bytes, in Go notation
//	a< TEXT          client a receives the line TEXT
//	a recv "BYTES"   client a receives exactly these bytes
//	a eof            the server has closed client a's connection
//	a close          client a closes its connection
//	a shut           client a closes its sending side
//	advance 90s      bubble time passes
//	VERB ARGS        one of Verbs
//
// A client connects when it is first named. Every reply must stand right after
// the line that causes it: a line that does something fails if any client has
// received something that the transcript has not consumed.
type Transcript struct {
	// Path is the file.
	Path string
	// Dial makes a connection to the server under test.
	Dial func() (*Conn, error)
	// Verbs are the additional verbs.
	Verbs map[string]func(args string) error
	// EOL ends the lines that are sent and received; LF if empty.
	EOL string
	// HTTP, if set, is for files of requests and answers, whose lines it describes.
	HTTP *HTTP
}

// Run plays the transcript. It must be called in a bubble. With the flag
// -update it rewrites the a<, recv and eof lines of the file instead of checking
// them.
func (tr *Transcript) Run(t *testing.T) {
	t.Helper()
	data, err := os.ReadFile(tr.Path)
	if err != nil {
		t.Fatalf("read transcript: %v", err)
	}
	eol := tr.EOL
	if eol == "" {
		eol = "\n"
	}
	p := &player{Transcript: tr, t: t, eol: []byte(eol), clients: make(map[string]*client)}
	p.update = Updating() && tr.HTTP == nil
	defer p.closeAll()
	for i, line := range strings.Split(strings.TrimSuffix(string(data), "\n"), "\n") {
		p.line = i + 1
		if err := p.play(line); err != nil {
			t.Fatalf("%s:%d: %s\n%v", tr.Path, p.line, line, err)
		}
	}
	p.line++
	if err := p.settled(); err != nil {
		t.Fatalf("%s:%d: at the end: %v", tr.Path, p.line, err)
	}
	if p.update {
		if err := os.WriteFile(tr.Path, p.out.Bytes(), 0o600); err != nil {
			t.Fatalf("update transcript: %v", err)
		}
	}
}

// player is one run of a transcript.
type player struct {
	*Transcript
	t       *testing.T
	eol     []byte
	line    int
	update  bool
	clients map[string]*client
	order   []*client
	out     bytes.Buffer // the rewritten file
}

// client is one connection of a transcript.
type client struct {
	name    string
	conn    *Conn
	pending []byte // collected by >>
	got     []byte // received and not consumed
	ended   bool   // the server has closed
	eofSeen bool   // and the transcript has said so, or the client has closed itself
	method  string // of the HTTP request that has not been answered
}

func (p *player) closeAll() {
	for _, c := range p.order {
		_ = c.conn.Close() // it cannot fail
	}
	p.order = nil
	clear(p.clients)
	synctest.Wait()
}

func (p *player) play(line string) error {
	if p.HTTP != nil {
		if known, err := p.HTTP.play(p, line); known {
			return err
		}
	}
	trimmed := strings.TrimSpace(line)
	word, rest, _ := strings.Cut(trimmed, " ")
	if p.update && (strings.HasSuffix(word, "<") || rest == "eof" || strings.HasPrefix(rest, "recv ")) {
		return nil // it is written again
	}
	if p.update {
		p.out.WriteString(line + "\n")
	}
	switch {
	case trimmed == "", strings.HasPrefix(trimmed, "#"):
		return nil
	case word == "advance":
		d, err := time.ParseDuration(strings.TrimSpace(rest))
		if err != nil {
			return fmt.Errorf("advance: %w", err)
		}
		return p.act(func() error { Advance(p.t, d); return nil })
	case p.Verbs[word] != nil:
		return p.act(func() error {
			if p.HTTP != nil {
				p.closeAll()
			}
			return p.Verbs[word](rest)
		})
	case strings.HasSuffix(word, ">>"):
		c, err := p.client(strings.TrimSuffix(word, ">>"))
		if err != nil {
			return err
		}
		c.pending = append(append(c.pending, rest...), p.eol...)
		return nil
	case strings.HasSuffix(word, ">"):
		return p.send(strings.TrimSuffix(word, ">"), append([]byte(rest), p.eol...))
	case strings.HasSuffix(word, "<"):
		return p.expect(strings.TrimSuffix(word, "<"), append([]byte(rest), p.eol...))
	}
	return p.playClient(word, rest)
}

func (p *player) playClient(name, action string) error {
	verb, args, _ := strings.Cut(action, " ")
	switch verb {
	case "send", "recv":
		raw, err := strconv.Unquote(strings.TrimSpace(args))
		if err != nil {
			return fmt.Errorf("%s wants a Go string: %w", verb, err)
		}
		if verb == "send" {
			return p.send(name, []byte(raw))
		}
		return p.expect(name, []byte(raw))
	case "eof":
		c, err := p.client(name)
		if err != nil {
			return err
		}
		if !c.ended || len(c.got) > 0 {
			return fmt.Errorf("client %s is still connected, or has received %q", name, c.got)
		}
		c.eofSeen = true
		return nil
	case "close", "shut":
		c, err := p.client(name)
		if err != nil {
			return err
		}
		return p.act(func() error {
			if verb == "shut" {
				return c.conn.CloseWrite()
			}
			c.eofSeen = true
			delete(p.clients, name)
			return c.conn.Close()
		})
	default:
		return errors.New("not a line of a transcript")
	}
}

// client returns the client of that name, connecting it if it is new.
func (p *player) client(name string) (*client, error) {
	if c := p.clients[name]; c != nil && (p.HTTP == nil || !c.ended || c.method != "") {
		return c, nil
	}
	if name == "" || strings.ContainsAny(name, "\"'{}") {
		return nil, fmt.Errorf("%q is not a name for a client", name)
	}
	dial := p.Dial
	if p.HTTP != nil && strings.HasPrefix(name, "admin") {
		dial = p.HTTP.Admin
	}
	conn, err := dial()
	if err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	c := &client{name: name, conn: conn}
	p.clients[name] = c
	p.order = append(p.order, c)
	return c, nil
}

func (p *player) send(name string, data []byte) error {
	c, err := p.client(name)
	if err != nil {
		return err
	}
	data = append(c.pending, data...)
	c.pending = nil
	return p.act(func() error {
		_, err := c.conn.Write(data)
		return err
	})
}

// act does something that may cause replies, and takes them in.
func (p *player) act(f func() error) error {
	if err := p.settled(); err != nil {
		return err
	}
	if err := f(); err != nil {
		return err
	}
	for {
		synctest.Wait()
		more := false
		for _, c := range p.order {
			data, ended := c.conn.TryRead()
			c.got = append(c.got, data...)
			c.ended = ended
			more = more || len(data) > 0
		}
		if !more {
			break // a server whose peer had no room left has gone on writing
		}
	}
	if p.update {
		p.record()
	}
	return nil
}

// record writes down everything received, for -update.
func (p *player) record() {
	for _, c := range p.order {
		for len(c.got) > 0 {
			i := bytes.Index(c.got, p.eol)
			if i < 0 {
				fmt.Fprintf(&p.out, "%s recv %q\n", c.name, c.got)
				c.got = nil
				break
			}
			p.recordLine(c.name, c.got[:i+len(p.eol)])
			c.got = c.got[i+len(p.eol):]
		}
		if c.ended && !c.eofSeen {
			c.eofSeen = true
			fmt.Fprintf(&p.out, "%s eof\n", c.name)
		}
	}
}

// recordLine writes down a line, with its end. One that holds what would be lost in a line of text is written in
// pieces.
func (p *player) recordLine(name string, line []byte) {
	text := line[:len(line)-len(p.eol)]
	if !utf8.Valid(text) || bytes.ContainsFunc(text, unicode.IsControl) || len(text) != len(bytes.TrimSpace(text)) {
		for piece := range bytes.Lines(line) {
			fmt.Fprintf(&p.out, "%s recv %q\n", name, piece)
		}
		return
	}
	fmt.Fprintf(&p.out, "%s< %s\n", name, text)
}

// settled fails if something has been received that the transcript does not tell.
func (p *player) settled() error {
	for _, c := range p.order {
		if len(c.got) > 0 {
			return fmt.Errorf("before this line client %s received, unexpectedly, %q", c.name, c.got)
		}
		if c.ended && !c.eofSeen && p.HTTP == nil {
			return fmt.Errorf("before this line the server closed the connection of client %s", c.name)
		}
	}
	return nil
}

func (p *player) expect(name string, want []byte) error {
	c := p.clients[name]
	if c == nil {
		return fmt.Errorf("client %s has sent nothing", name)
	}
	if bytes.HasPrefix(c.got, want) {
		c.got = c.got[len(want):]
		return nil
	}
	if len(c.got) == 0 && c.ended {
		return fmt.Errorf("client %s: connection closed\nwant %q", name, want)
	}
	return fmt.Errorf("client %s\n got %q\nwant %q", name, c.got, want)
}
