package tarantooltest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"

	"github.com/tinylib/msgp/msgp"
)

// Interpret lets a client that writes lines speak IPROTO. It returns at once; what it
// starts ends with the two connections. Each line is one request, with the next sync:
//
//	ping | nop | id
//	queue.tube.t:put("data", {"ttl": 5})      CALL
//	16 queue.tube.t:kick(2)                   CALL_16
//	eval "return queue.state()" ARGS
//	select 281                                or another type by its number: type 2 {16: 512}
//	auth USER PASSWORD                        auth guest: without a password
//	watch "key" | unwatch "key" | once "key"
//	content {0: 64, 1: 5} {}                  header and body as they are, behind their length
//	raw "BYTES"                               exactly these bytes
//
// Requests that arrive together leave with one write. What the server sends becomes
// lines as well:
//
//	[VALUES]                   what a procedure returned
//	ok | ok {84: 3}            an empty body, another body
//	error 32: TEXT
//	event "box.shutdown" true
//	malformed: REASON          what a server must not send
//
// A reply that does not answer the last request has the sync before it: #2 [VALUES].
func Interpret(lines, wire net.Conn) {
	i := &interpreter{ends: ends{lines, wire}, greeted: make(chan struct{}), last: make(chan uint64, 1)}
	i.last <- 0
	go i.replies()
	go func() {
		<-i.greeted
		i.requests(i.request)
	}()
}

type interpreter struct {
	ends
	greeting Greeting
	greeted  chan struct{} // closed when greeting is known, or never will be
	last     chan uint64   // holds the last sync, and guards it
}

// ends are the two connections of an interpreter.
type ends struct{ lines, wire net.Conn }

// requests makes packets of lines until there are no more.
func (e ends) requests(request func(line string) ([]byte, error)) {
	buf := make([]byte, 4<<20)
	var pending []byte
	for {
		n, err := e.lines.Read(buf)
		pending = append(pending, buf[:n]...)
		var out []byte
		for {
			line, rest, ok := bytes.Cut(pending, []byte("\n"))
			if !ok {
				break
			}
			pending = rest
			packet, err := request(strings.TrimSpace(string(line)))
			if err != nil {
				e.say("cannot send: " + err.Error())
			}
			out = append(out, packet...)
		}
		if len(out) > 0 {
			_, _ = e.wire.Write(out) // the server may have closed already
		}
		if err != nil {
			break
		}
	}
	if w, ok := e.wire.(interface{ CloseWrite() error }); ok {
		_ = w.CloseWrite() // it is of no use any more
	}
}

func (e ends) say(line string) {
	_, _ = io.WriteString(e.lines, line+"\n") // a client that is gone does not mind
}

// close closes both, as the server has.
func (e ends) close() {
	_ = e.lines.Close() // it is of no use any more
	_ = e.wire.Close()  // the same
}

func (i *interpreter) request(line string) ([]byte, error) {
	word, rest, _ := strings.Cut(line, " ")
	if word == "raw" {
		raw, err := strconv.Unquote(rest)
		return []byte(raw), err
	}
	sync := <-i.last + 1
	i.last <- sync
	switch {
	case word == "content":
		header, body, ok := strings.Cut(rest, "} ")
		if ok {
			header += "}"
		}
		content, err := Encode(header)
		if err != nil {
			return nil, err
		}
		more, err := Encode(body)
		return Frame(append(content, more...)), err
	case word == "16":
		return i.call(TypeCall16, sync, rest)
	case strings.HasSuffix(line, ")"):
		return i.call(TypeCall, sync, line)
	}
	kind, body, err := i.body(word, rest)
	return Packet(kind, sync, body), err
}

func (i *interpreter) call(kind, sync uint64, text string) ([]byte, error) {
	name, args, ok := strings.Cut(strings.TrimSuffix(text, ")"), "(")
	if !ok {
		return nil, fmt.Errorf("%q is no call", text)
	}
	raw, err := Encode(args)
	if err != nil {
		return nil, err
	}
	n, err := count(raw)
	return CallPacket(kind, sync, name, n, raw), err
}

// body returns type and body of a request that is no call.
func (i *interpreter) body(word, rest string) (kind uint64, body []byte, err error) {
	switch word {
	case "ping":
		return TypePing, nil, nil
	case "nop":
		return TypeNop, nil, nil
	case "id":
		return TypeID, []byte{0x82, keyVersion, 3, keyFeatures, 0x90}, nil
	case "select":
		space, err := strconv.ParseUint(rest, 10, 64)
		return TypeSelect, msgp.AppendUint64([]byte{0x81, keySpace}, space), err
	case "watch", "unwatch", "once":
		kind = map[string]uint64{"watch": TypeWatch, "unwatch": TypeUnwatch, "once": TypeWatchOnce}[word]
		key, err := Encode(rest)
		return kind, append([]byte{0x81, keyEvent}, key...), err
	case "auth":
		user, password, ok := strings.Cut(rest, " ")
		body = msgp.AppendString([]byte{0x82, keyUser}, user)
		if !ok {
			return TypeAuth, append(body, keyTuple, 0x90), nil
		}
		body = msgp.AppendString(append(body, keyTuple, 0x92), "chap-sha1")
		return TypeAuth, msgp.AppendStringFromBytes(body, i.greeting.Scramble(password)), nil
	case "eval":
		return i.eval(rest)
	case "type":
		number, text, _ := strings.Cut(rest, " ")
		if kind, err = strconv.ParseUint(number, 10, 64); err == nil {
			body, err = Encode(text)
		}
		return kind, body, err
	}
	return 0, nil, errors.New("no such request: " + word)
}

func (i *interpreter) eval(rest string) (uint64, []byte, error) {
	quoted, err := strconv.QuotedPrefix(rest)
	if err != nil {
		return 0, nil, err
	}
	text, err := strconv.Unquote(quoted)
	if err != nil {
		return 0, nil, err
	}
	args, err := Encode(strings.TrimPrefix(strings.TrimSpace(rest[len(quoted):]), ","))
	if err != nil {
		return 0, nil, err
	}
	n, err := count(args)
	body := msgp.AppendString([]byte{0x82, keyExpression}, text)
	body = msgp.AppendArrayHeader(append(body, keyTuple), uint32(n)) //nolint:gosec // what a test writes
	return TypeEval, append(body, args...), err
}

// replies makes lines of packets until there are no more.
func (i *interpreter) replies() {
	r := bufio.NewReader(i.wire)
	greeting := make([]byte, GreetingSize)
	_, err := io.ReadFull(r, greeting)
	if err == nil {
		if i.greeting, err = ParseGreeting(greeting); err != nil {
			i.say("malformed: " + err.Error())
		}
	}
	close(i.greeted)
	for err == nil {
		var p Reply
		if p, err = ReadReply(r); err == nil {
			i.say(i.line(&p))
		} else if errors.Is(err, errPacket) {
			i.say("malformed: " + err.Error())
		}
	}
	i.close()
}

func (i *interpreter) line(p *Reply) string {
	text, err := describe(p)
	if err != nil {
		return "malformed: " + err.Error()
	}
	last := <-i.last
	i.last <- last
	if p.Kind != TypeEvent && p.Sync != last {
		text = fmt.Sprintf("#%d %s", p.Sync, text)
	}
	return text
}

func describe(p *Reply) (string, error) {
	if err := p.Err(); err != nil {
		if refused, ok := errors.AsType[*Error](err); ok {
			return fmt.Sprintf("error %d: %s", refused.Code, refused.Text), nil
		}
		return "", err
	}
	if p.Kind == TypeEvent {
		key, err := Format(p.Body[keyEvent])
		if raw, ok := p.Body[keyEventData]; ok && err == nil {
			var text string
			text, err = Format(raw)
			key += " " + text
		}
		return "event " + key, err
	}
	if len(p.Keys) == 0 {
		return "ok", nil
	}
	if len(p.Keys) == 1 && p.Keys[0] == keyData {
		return Format(p.Body[keyData])
	}
	var all []string
	for _, k := range p.Keys {
		text, err := Format(p.Body[k])
		if err != nil {
			return "", err
		}
		all = append(all, fmt.Sprintf("%d: %s", k, text))
	}
	return "ok {" + strings.Join(all, ", ") + "}", nil
}
