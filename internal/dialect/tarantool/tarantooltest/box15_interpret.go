package tarantooltest

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/tinylib/msgp/msgp"
)

// Interpret15 lets a client that writes lines speak the protocol of Tarantool 1.5, as
// Interpret does for IPROTO. Each line is one request, with the next id:
//
//	queue.put(0, "tube", 0, 60)   CALL; numbers are sent as the text they are
//	ping
//	type 17 "BODY"                another type, with these bytes
//	raw "BYTES"                   exactly these bytes
//
// What the server sends becomes lines as well: [["field", "field"]] for rows, ok for an
// empty body, and error 0x3302: TEXT.
func Interpret15(lines, wire net.Conn) {
	i := &interpreter15{ends: ends{lines, wire}}
	go i.replies()
	go i.requests(i.request)
}

type interpreter15 struct {
	ends
	last atomic.Uint32
}

func (i *interpreter15) request(line string) ([]byte, error) {
	word, rest, _ := strings.Cut(line, " ")
	if word == "raw" {
		raw, err := strconv.Unquote(rest)
		return []byte(raw), err
	}
	id := i.last.Add(1)
	switch word {
	case "ping":
		return Box15Packet(Box15TypePing, id, nil), nil
	case "type":
		number, quoted, _ := strings.Cut(rest, " ")
		kind, err := strconv.ParseUint(number, 0, 32)
		if err != nil {
			return nil, err
		}
		body, err := strconv.Unquote(quoted)
		return Box15Packet(uint32(kind), id, []byte(body)), err
	}
	name, args, ok := strings.Cut(strings.TrimSuffix(line, ")"), "(")
	if !ok {
		return nil, errors.New("no such request: " + word)
	}
	fields, err := box15Args(args)
	return Box15CallPacket(id, name, fields...), err
}

// box15Args returns the fields that arguments in notation are sent as.
func box15Args(text string) (fields []string, err error) {
	raw, err := Encode(text)
	for len(raw) > 0 && err == nil {
		var field []byte
		if msgp.NextType(raw) == msgp.StrType {
			field, raw, err = msgp.ReadStringZC(raw)
		} else {
			var number string
			number, raw, err = format(raw)
			field = []byte(strings.TrimSuffix(number, ".0"))
		}
		fields = append(fields, string(field))
	}
	return fields, err
}

func (i *interpreter15) replies() {
	for {
		p, err := ReadBox15(i.wire)
		if err != nil {
			break
		}
		line := p.describe()
		if last := i.last.Load(); p.ID != last {
			line = fmt.Sprintf("#%d %s", p.ID, line)
		}
		i.say(line)
	}
	i.close()
}

// describe returns the text of a packet.
func (p *Box15Reply) describe() string {
	if p.Type == Box15TypePing && len(p.Body) == 0 {
		return "ok"
	}
	rows, err := p.Rows()
	var refused *Box15Error
	switch {
	case errors.As(err, &refused):
		return fmt.Sprintf("error 0x%04x: %s", refused.Code, refused.Text)
	case err != nil:
		return "malformed: " + err.Error()
	}
	lines := make([]string, len(rows))
	for i, row := range rows {
		fields := row.Strings()
		for k := range fields {
			fields[k] = strconv.Quote(fields[k])
		}
		lines[i] = "[" + strings.Join(fields, ", ") + "]"
	}
	return "[" + strings.Join(lines, ", ") + "]"
}
