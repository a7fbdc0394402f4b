package beanstalkd

import (
	"bytes"
	"math"
)

// verb is a command of the protocol.
type verb uint8

const (
	verbUnknown verb = iota // also what is malformed
	verbPut
	verbUse
	verbReserve
	verbReserveTimeout
	verbReserveJob
	verbDelete
	verbRelease
	verbBury
	verbTouch
	verbWatch
	verbIgnore
	verbPeek
	verbPeekReady
	verbPeekDelayed
	verbPeekBuried
	verbKick
	verbKickJob
	verbStatsJob
	verbStatsTube
	verbStats
	verbListTubes
	verbListTubeUsed
	verbListTubesWatched
	verbPauseTube
	verbQuit

	verbCount = int(verbQuit) + 1
)

var verbNames = [verbCount]string{
	verbPut: "put", verbUse: "use", verbReserve: "reserve", verbReserveTimeout: "reserve-with-timeout",
	verbReserveJob: "reserve-job",
	verbDelete:     "delete", verbRelease: "release", verbBury: "bury", verbTouch: "touch", verbWatch: "watch",
	verbIgnore: "ignore",
	verbPeek:   "peek", verbPeekReady: "peek-ready", verbPeekDelayed: "peek-delayed", verbPeekBuried: "peek-buried",
	verbKick: "kick", verbKickJob: "kick-job", verbStatsJob: "stats-job", verbStatsTube: "stats-tube",
	verbStats:     "stats",
	verbListTubes: "list-tubes", verbListTubeUsed: "list-tube-used", verbListTubesWatched: "list-tubes-watched",
	verbPauseTube: "pause-tube", verbQuit: "quit",
}

// words are what lines begin with. The first that fits counts: a command without arguments fits also what is longer,
// which is malformed then.
var words = []struct {
	text string
	verb verb
}{
	{"put ", verbPut},
	{"reserve-with-timeout ", verbReserveTimeout},
	{"reserve-job ", verbReserveJob},
	{"reserve", verbReserve},
	{"delete ", verbDelete},
	{"touch ", verbTouch},
	{"release ", verbRelease},
	{"bury ", verbBury},
	{"use ", verbUse},
	{"watch ", verbWatch},
	{"ignore ", verbIgnore},
	{"peek ", verbPeek},
	{"peek-ready", verbPeekReady},
	{"peek-delayed", verbPeekDelayed},
	{"peek-buried", verbPeekBuried},
	{"kick ", verbKick},
	{"kick-job ", verbKickJob},
	{"stats-job ", verbStatsJob},
	{"stats-tube ", verbStatsTube},
	{"stats", verbStats},
	{"list-tubes-watched", verbListTubesWatched},
	{"list-tubes", verbListTubes},
	{"list-tube-used", verbListTubeUsed},
	{"pause-tube", verbPauseTube},
	{"quit", verbQuit},
}

// request is a command line. What the command does not have is zero.
type request struct {
	verb     verb
	text     string // the reply to a line that is no command
	id       uint64
	priority uint32
	delay    uint32 // seconds; of reserve-with-timeout and pause-tube, too
	ttr      uint32
	size     int64  // of the body; negative: it has none
	bound    uint64 // of kick
	tube     []byte // a part of the line
}

const (
	nameMax    = 200
	timeoutMax = math.MaxInt32
)

// parse reads a line without its CR LF.
func parse(line []byte, r *request) {
	*r = request{size: -1}
	if bytes.IndexByte(line, 0) >= 0 {
		r.text = replyFormat
		return
	}
	for _, w := range words {
		if bytes.HasPrefix(line, []byte(w.text)) { // which does not allocate
			r.verb = w.verb
			a := args{rest: line[len(w.text):]}
			a.of(r)
			if a.bad {
				*r = request{size: -1, text: replyFormat}
			}
			return
		}
	}
	r.text = replyUnknown
}

// args reads the arguments of a command; after the first fault everything is zero.
type args struct {
	rest []byte
	bad  bool
}

// of reads the arguments of r.verb.
func (a *args) of(r *request) {
	switch r.verb {
	case verbPut:
		r.priority, r.delay, r.ttr, r.size = a.uint32(), a.uint32(), a.uint32(), int64(a.uint32())
	case verbReserveTimeout:
		if r.delay = a.uint32(); r.delay > timeoutMax {
			a.bad = true
		}
	case verbReserveJob, verbDelete, verbTouch, verbPeek, verbKickJob, verbStatsJob:
		r.id = a.uint(math.MaxUint64)
	case verbRelease:
		r.id, r.priority, r.delay = a.uint(math.MaxUint64), a.uint32(), a.uint32()
	case verbBury:
		r.id, r.priority = a.uint(math.MaxUint64), a.uint32()
	case verbKick:
		r.bound = a.lax()
	case verbUse, verbWatch, verbIgnore, verbStatsTube:
		r.tube = a.name()
	case verbPauseTube:
		a.blanks()
		r.tube, r.delay = a.name(), a.uint32()
	case verbQuit:
		a.rest = nil // whatever follows
	case verbUnknown, verbReserve, verbPeekReady, verbPeekDelayed, verbPeekBuried, verbStats, verbListTubes,
		verbListTubeUsed,
		verbListTubesWatched: // have none
	}
	if len(a.rest) > 0 {
		a.bad = true
	}
}

// blanks passes over blanks, of which there must be one.
func (a *args) blanks() {
	n := len(a.rest)
	a.rest = bytes.TrimLeft(a.rest, " ")
	if len(a.rest) == n {
		a.bad = true
	}
}

func (a *args) uint32() uint32 { return uint32(a.uint(math.MaxUint32)) } //nolint:gosec // it is at most that

// uint reads a number: digits, after blanks.
func (a *args) uint(most uint64) (v uint64) {
	a.rest = bytes.TrimLeft(a.rest, " ")
	n := 0
	for ; n < len(a.rest) && isDigit(a.rest[n]); n++ {
		digit := uint64(a.rest[n] - '0')
		if v > (most-digit)/10 {
			a.bad = true
			return 0
		}
		v = 10*v + digit
	}
	if n == 0 || n < len(a.rest) && a.rest[n] != ' ' {
		a.bad = true
		return 0
	}
	a.rest = a.rest[n:]
	return v
}

// lax reads the bound of kick as the original does: a sign is let through, which makes a large number, and so is
// whatever follows the digits.
func (a *args) lax() (v uint64) {
	text := bytes.TrimLeft(a.rest, " ")
	a.rest = nil
	negative := len(text) > 0 && text[0] == '-'
	if negative || len(text) > 0 && text[0] == '+' {
		text = text[1:]
	}
	if len(text) == 0 || !isDigit(text[0]) {
		a.bad = true
		return 0
	}
	for _, c := range text {
		if !isDigit(c) {
			break
		}
		if v > (math.MaxUint64-uint64(c-'0'))/10 {
			a.bad = true
			return 0
		}
		v = 10*v + uint64(c-'0')
	}
	if negative {
		return -v
	}
	return v
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// name reads the name of a tube, up to a blank.
func (a *args) name() []byte {
	n := bytes.IndexByte(a.rest, ' ')
	if n < 0 {
		n = len(a.rest)
	}
	name := a.rest[:n]
	a.rest = a.rest[n:]
	if !isTube(name) {
		a.bad = true
	}
	return name
}

// isTube reports whether bytes are the name of a tube.
func isTube[T string | []byte](name T) bool {
	if len(name) == 0 || len(name) > nameMax || name[0] == '-' {
		return false
	}
	for i := range len(name) {
		if !nameBytes[name[i]] {
			return false
		}
	}
	return true
}

// nameBytes are what names of tubes consist of.
var nameBytes = func() (set [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-+/;.$_()") {
		set[c] = true
	}
	return set
}()
