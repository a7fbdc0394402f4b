package faktory

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strconv"
	"time"

	"millrace/internal/auth"
	"millrace/internal/dialect/jsonscan"
)

const (
	// helloTime bounds the whole handshake, that of TLS included.
	helloTime = 2 * time.Second
	// helloMax is the longest HELLO: whoever sends it has not proved anything yet.
	helloMax = 64 << 10
	// roundsMin and roundsSpan bound how often a password is hashed.
	roundsMin  = 4000
	roundsSpan = 4096
	// versionRounds is the first version of the protocol that hashes more than once.
	versionRounds = 2
	versionMax    = 255
	// What is remembered of a worker: its names, and all labels together.
	workerNameMax = 255
	labelsMax     = 100
	labelBytesMax = 4 << 10
)

// errRefused means that a client has not introduced itself properly.
var errRefused = errors.New("handshake refused")

// challenge is what the server asks of a client that must know the password.
type challenge struct {
	salt   string
	rounds int
}

func newChallenge() challenge {
	var b [10]byte
	_, _ = rand.Read(b[:]) // it never fails
	return challenge{
		salt:   strconv.FormatUint(binary.LittleEndian.Uint64(b[:8])>>1, 16),
		rounds: roundsMin + int(binary.LittleEndian.Uint16(b[8:]))%roundsSpan,
	}
}

// answer returns what a client that knows the password sends.
func (ch challenge) answer(password string, rounds int) string {
	h := sha256.Sum256([]byte(password + ch.salt))
	for range rounds - 1 {
		h = sha256.Sum256(h[:])
	}
	return hex.EncodeToString(h[:])
}

// appendGreeting appends the HI. There must be no blank within its JSON.
func (ch challenge) appendGreeting(b []byte) []byte {
	b = append(b, `+HI {"v":2`...)
	if ch.rounds > 0 {
		b = strconv.AppendInt(append(b, `,"i":`...), int64(ch.rounds), 10)
		b = append(append(append(b, `,"s":"`...), ch.salt...), '"')
	}
	return append(b, "}\r\n"...)
}

// hello is what a client says about itself.
type hello struct {
	version  int64
	wid      string
	hostname string
	pid      int64
	labels   []string
	pwdhash  []byte
	rss      int64
}

// parseHello reads the first line of a client. It returns what is wrong with it.
func parseHello(line []byte) (h hello, text string) {
	word, arg := splitLine(line)
	if string(word) != "HELLO" || len(arg) == 0 || arg[0] != '{' {
		return h, textFirstHello
	}
	r := jsonscan.ReadObject(arg)
	for key, value, ok := r.Next(); ok; key, value, ok = r.Next() {
		name := member(key)
		if !h.take(string(name), value) {
			return h, textHello + "wrong type or value of " + echo(name)
		}
	}
	if r.Err() != nil {
		return h, textHello + textNotObject
	}
	return h, ""
}

func (h *hello) take(name string, value []byte) (good bool) {
	var text []byte
	switch name {
	case "v":
		h.version, good = parseInteger(value)
		return good && value[0] != '-' && h.version <= versionMax // -0 is no version either
	case "wid":
		h.wid, good = parseWorkerName(value)
	case "hostname":
		h.hostname, good = parseWorkerName(value)
	case "pid":
		h.pid, good = parseInteger(value)
	case "rss_kb":
		h.rss, good = parseInteger(value)
	case "labels":
		h.labels, good = parseLabels(value)
	case "pwdhash":
		text, good = parseString(value)
		h.pwdhash = bytes.Clone(text)
	case "username":
		_, good = parseString(value)
	default:
		return true
	}
	return good
}

// parseWorkerName reads a name that is remembered as long as the worker is connected.
func parseWorkerName(value []byte) (name string, ok bool) {
	text, ok := parseString(value)
	return string(text), ok && len(text) <= workerNameMax
}

func parseLabels(value []byte) (labels []string, ok bool) {
	r := jsonscan.ReadArray(value)
	size := 0
	for _, text, more := r.Next(); more; _, text, more = r.Next() {
		label, good := parseString(text)
		if size += len(label); !good || len(labels) == labelsMax || size > labelBytesMax {
			return nil, false
		}
		labels = append(labels, string(label))
	}
	return labels, r.Err() == nil
}

// handshake greets the client and lets it introduce itself (protocol section 2).
func (c *conn) handshake() error {
	var ch challenge
	if c.d.opts.Password != "" {
		ch = newChallenge()
	}
	c.SetOut(ch.appendGreeting(c.Out()))
	if err := c.Flush(); err != nil {
		return err
	}
	c.SetDeadline(c.Accepted().Add(helloTime))
	line, err := c.readHello()
	if err != nil {
		return err
	}
	c.Begin()
	c.Verb = uint8(verbHello)
	h, text := parseHello(line)
	if text == "" && c.d.opts.Password != "" {
		text = c.checkPassword(ch, &h)
	}
	if c.Ended(text == ""); text != "" {
		c.fail(text)
		return errRefused
	}
	c.SetDeadline(time.Time{})
	c.enter(&h)
	c.SetOut(append(c.Out(), replyOK...))
	if c.HasLine() {
		return nil // what is behind it is answered along with it
	}
	return c.Flush()
}

// readHello reads the first line.
func (c *conn) readHello() ([]byte, error) {
	for !c.HasLine() {
		if c.Buffered() > helloMax {
			c.fail(textTooLong)
			return nil, errRefused
		}
		if err := c.Fill(helloMax + 1); err != nil {
			return nil, err
		}
	}
	return c.ReadLine()
}

// checkPassword returns what is wrong with the password of a client; nothing if it is right. Old clients hash it once.
func (c *conn) checkPassword(ch challenge, h *hello) (text string) {
	rounds := ch.rounds
	if h.version < versionRounds {
		rounds = 1
	}
	want := ch.answer(c.d.opts.Password, rounds)
	attempt := auth.Attempt{Door: c.d.Name(), Peer: c.RemoteAddr().String()}
	switch c.d.opts.Throttle.Check(attempt, func() bool {
		return subtle.ConstantTimeCompare([]byte(want), h.pwdhash) == 1
	}) {
	case auth.Right:
		return ""
	case auth.Limited:
		return textTooMany
	case auth.Wrong:
	}
	return textPassword
}

// enter registers the connection with its worker process, if it belongs to one.
func (c *conn) enter(h *hello) {
	if h.wid == "" {
		c.holder = c.d.opts.Engine.NewHolder()
		return
	}
	c.worker = c.d.workers.join(h, c)
	c.holder = c.worker.holder
}

// leave is the opposite of enter.
func (c *conn) leave() {
	if c.worker != nil {
		c.d.workers.leave(c.worker, c)
	}
}
