package workq

import (
	"bytes"
	"math"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/job"
)

// verb is the first word of a command.
type verb uint8

const (
	verbUnknown verb = iota
	verbAdd
	verbSchedule
	verbRun
	verbResult
	verbLease
	verbComplete
	verbFail
	verbDelete
	verbInspect
	verbCount = int(verbInspect) + 1
)

var verbNames = [verbCount]string{
	"", "add", "schedule", "run", "result", "lease", "complete", "fail",
	"delete", "inspect",
}

// object is what inspect looks at.
type object uint8

const (
	objectServer object = iota + 1
	objectQueues
	objectQueue
	objectJobs
	objectScheduled
	objectJob
)

// The ranges of the protocol (section 3).
const (
	ttrMax   = 86400000 // milliseconds
	waitMax  = 86400000 // milliseconds
	limitMax = 100
	nameMax  = 255
	// leaseNamesMax is how many names one lease may have.
	leaseNamesMax = 1024
	// argsMax is how many arguments a command other than lease has at most.
	argsMax = 6
	// flagsMax is how many flags a command has at most, of those that the original has.
	flagsMax = 3
	// timeLayout is the form of instants. A fraction of a second is tolerated.
	timeLayout = "2006-01-02T15:04:05Z"
)

// noBlock is the size of a request that is not followed by a block.
const noBlock = -1

// request is a parsed command line. It shares no memory with the line.
type request struct {
	verb verb
	// size is the length of the block that follows the line; noBlock if none does.
	size int
	// text is the error that the command is answered with. Where a block follows,
	// it has been found by looking beyond the size: the block is read first.
	text string

	id          dialect.UUID
	name        string
	names       []string // lease
	ttr         uint32   // milliseconds
	ttl         uint64   // milliseconds
	wait        uint32   // milliseconds
	at          time.Time
	priority    int32
	group       string
	trace       string
	maxAttempts uint8
	maxFails    uint8
	object      object
	offset      uint32
	limit       int
}

// flag is a word of the form -key=value.
type flag struct{ key, value []byte }

// parser splits lines. It is reused, so that a command costs no memory.
type parser struct {
	names dialect.Names
	// maxBlock is the largest block that is taken.
	maxBlock int

	args  [argsMax][]byte    // the words behind the verb that are no flags
	argc  int                // how many there were, those beyond argsMax included
	flags [flagsMax + 2]flag // and those that the original does not have
	flagc int
}

// cutCR drops the CR at the end of a line. A line without one is not a command.
func cutCR(line []byte) ([]byte, bool) { return bytes.CutSuffix(line, []byte{'\r'}) }

// parse reads a command line without its CR LF, in the order of protocol section
// 1: flag syntax, verb, number of arguments, size of the block, all the rest.
func (p *parser) parse(line []byte, r *request) {
	clear(r.names) // of a lease before, whose names are not needed any more
	*r = request{size: noBlock, names: r.names[:0]}
	word, _, _ := bytes.Cut(line, []byte{' '})
	if !p.split(line) {
		r.text = textFlags
		return
	}
	r.verb = verbOf(word)
	switch r.verb {
	case verbAdd:
		if p.block(r, 5, textPayloadSize) {
			r.text = p.parseAdd(r)
		}
	case verbSchedule:
		if p.block(r, 6, textPayloadSize) {
			r.text = p.parseAdd(r)
		}
	case verbRun:
		if p.block(r, 5, textPayloadSize) {
			r.text = p.parseRun(r)
		}
	case verbComplete:
		if p.block(r, 2, textPayloadSize) {
			r.text = p.parseID(r)
		}
	case verbFail:
		if p.block(r, 2, textResultSize) {
			r.text = p.parseID(r)
		}
	case verbDelete:
		if r.text = p.count(1); r.text == "" {
			r.text = p.parseID(r)
		}
	case verbResult:
		if r.text = p.count(2); r.text == "" {
			r.text = p.parseResult(r)
		}
	case verbLease:
		r.text = p.parseLease(r, line)
	case verbInspect:
		r.text = p.parseInspect(r)
	case verbUnknown:
		r.text = textUnknown
	}
}

func verbOf(word []byte) verb {
	switch string(word) {
	case "add":
		return verbAdd
	case "schedule":
		return verbSchedule
	case "run":
		return verbRun
	case "result":
		return verbResult
	case "lease":
		return verbLease
	case "complete":
		return verbComplete
	case "fail":
		return verbFail
	case "delete":
		return verbDelete
	case "inspect":
		return verbInspect
	}
	return verbUnknown
}

// nextWord returns the next word of a line, empty at its end, and what follows.
func nextWord(line []byte) (word, rest []byte) {
	for len(line) > 0 && line[0] == ' ' {
		line = line[1:]
	}
	if i := bytes.IndexByte(line, ' '); i >= 0 {
		return line[:i], line[i+1:]
	}
	return line, nil
}

// split finds the arguments and flags of a line. It reports whether the flags are
// well formed: with a key and a value, and none given twice.
func (p *parser) split(line []byte) bool {
	p.argc, p.flagc = -1, 0 // the first word is the verb
	var more map[string]struct{}
	for {
		var word []byte
		word, line = nextWord(line)
		if len(word) == 0 {
			return true
		}
		f, isFlag := cutFlag(word)
		if !isFlag {
			if p.argc >= 0 && p.argc < argsMax {
				p.args[p.argc] = word
			}
			p.argc++
			continue
		}
		if len(f.key) == 0 || len(f.value) == 0 {
			return false
		}
		for _, g := range p.flags[:min(p.flagc, len(p.flags))] {
			if bytes.Equal(f.key, g.key) {
				return false
			}
		}
		if p.flagc < len(p.flags) {
			p.flags[p.flagc] = f
		} else {
			// Too many for any command, which is told only if none comes twice.
			if more == nil {
				more = make(map[string]struct{})
			}
			if _, twice := more[string(f.key)]; twice {
				return false
			}
			more[string(f.key)] = struct{}{}
		}
		p.flagc++
	}
}

// cutFlag splits a word that begins with a hyphen and has an equals sign. What
// follows a second equals sign is dropped.
func cutFlag(word []byte) (f flag, ok bool) {
	if word[0] != '-' {
		return flag{}, false
	}
	key, value, ok := bytes.Cut(word[1:], []byte{'='})
	if !ok {
		return flag{}, false
	}
	value, _, _ = bytes.Cut(value, []byte{'='})
	return flag{key, value}, true
}

// flag returns the value of a flag.
func (p *parser) flag(key string) (value []byte, ok bool) {
	for _, f := range p.flags[:min(p.flagc, len(p.flags))] {
		if string(f.key) == key {
			return f.value, true
		}
	}
	return nil, false
}

// count checks the number of arguments of a command without flags.
func (p *parser) count(n int) string {
	if p.argc != n || p.flagc > 0 {
		return textArgs
	}
	return ""
}

// block checks the number of arguments and the last one, the size of the block. An
// error found here is answered without reading the block (protocol section 1).
func (p *parser) block(r *request, n int, wrong string) bool {
	if p.argc != n {
		r.text = textArgs
		return false
	}
	size, ok := parseSize(p.args[n-1], p.maxBlock)
	if !ok {
		r.text = wrong
		return false
	}
	r.size = size
	return true
}

// parseAdd reads the arguments of add and of schedule, which has a time, too. Number
// syntax comes before everything else (protocol section 2).
func (p *parser) parseAdd(r *request) string {
	if !p.ours(r, flagsMax) {
		return textArgs
	}
	var ok bool
	if r.id, ok = parseID(p.args[0]); !ok {
		return textID
	}
	if text := p.times(r); text != "" {
		return text
	}
	if r.verb == verbSchedule {
		at, err := time.Parse(timeLayout, string(p.args[4]))
		if err != nil {
			return textTime
		}
		r.at = at
	}
	if text := p.numbers(r); text != "" {
		return text
	}
	return p.ranges(r)
}

func (p *parser) parseRun(r *request) string {
	if !p.ours(r, 1) {
		return textArgs
	}
	var ok bool
	if r.id, ok = parseID(p.args[0]); !ok {
		return textID
	}
	if r.ttr, ok = parseUint[uint32](p.args[2], math.MaxUint32); !ok {
		return textTTR
	}
	r.ttl = 1 // a run has no time to live: any that passes
	if value, given := p.flag("priority"); given {
		if r.priority, ok = parseInt32(value); !ok {
			return textPriority
		}
	}
	if r.wait, ok = parseUint[uint32](p.args[3], waitMax); !ok {
		return textWait
	}
	return p.ranges(r)
}

// ours reads the flags that the original does not have, and reports whether there are at most that many others.
func (p *parser) ours(r *request, others int) bool {
	group, given := p.flag("group")
	if given {
		others++
	}
	r.group = p.names.String(group)
	if trace, given := p.flag("traceparent"); given {
		others++
		r.trace = job.ParseTrace(string(trace))
	}
	return p.flagc <= others && len(group) <= dialect.GroupMax
}

// times reads ttr and ttl.
func (p *parser) times(r *request) string {
	var ok bool
	if r.ttr, ok = parseUint[uint32](p.args[2], math.MaxUint32); !ok {
		return textTTR
	}
	if r.ttl, ok = parseUint[uint64](p.args[3], math.MaxUint64); !ok {
		return textTTL
	}
	return ""
}

// numbers reads the flags of add and schedule.
func (p *parser) numbers(r *request) string {
	var ok bool
	if value, given := p.flag("max-attempts"); given {
		if r.maxAttempts, ok = parseUint[uint8](value, math.MaxUint8); !ok {
			return textMaxAttempts
		}
	}
	if value, given := p.flag("max-fails"); given {
		if r.maxFails, ok = parseUint[uint8](value, math.MaxUint8); !ok {
			return textMaxFails
		}
	}
	if value, given := p.flag("priority"); given {
		if r.priority, ok = parseInt32(value); !ok {
			return textPriority
		}
	}
	return ""
}

// ranges checks what comes after the syntax of a new job's arguments.
func (p *parser) ranges(r *request) string {
	if !usable(r.id) {
		return textID
	}
	// Deviation: ids in the form under which jobs of other protocols are shown
	// name those jobs, so no new job can have one.
	if _, _, taken := r.id.Job(); taken {
		return textID
	}
	switch name := p.args[1]; {
	case !validName(name):
		return textName
	case r.ttr == 0 || r.ttr > ttrMax:
		return textTTR
	case r.ttl == 0:
		return textTTL
	default:
		r.name = p.names.String(name)
	}
	return ""
}

// parseID reads the first argument of commands that name a job and nothing else
// that could be wrong, the size of a block apart.
func (p *parser) parseID(r *request) string {
	if p.flagc > 0 {
		return textArgs
	}
	var ok bool
	if r.id, ok = parseID(p.args[0]); !ok || !usable(r.id) {
		return textID
	}
	return ""
}

func (p *parser) parseResult(r *request) string {
	if text := p.parseID(r); text != "" {
		return text
	}
	var ok bool
	if r.wait, ok = parseUint[uint32](p.args[1], waitMax); !ok {
		return textWait
	}
	return ""
}

// parseLease reads names and the wait, which is looked at first.
func (p *parser) parseLease(r *request, line []byte) string {
	if p.argc < 2 || p.argc > leaseNamesMax+1 || p.flagc > 0 {
		return textArgs
	}
	valid := true
	_, rest := nextWord(line) // the verb
	for range p.argc - 1 {
		var word []byte
		word, rest = nextWord(rest)
		if valid = valid && validName(word); valid {
			r.names = append(r.names, p.names.String(word))
		}
	}
	wait, _ := nextWord(rest)
	var ok bool
	switch r.wait, ok = parseUint[uint32](wait, waitMax); {
	case !ok:
		return textWait
	case !valid:
		return textName
	}
	return ""
}

func (p *parser) parseInspect(r *request) string {
	if p.argc < 1 {
		return textArgs
	}
	var args int
	switch string(p.args[0]) {
	case "server":
		r.object, args = objectServer, 1
	case "queues":
		r.object, args = objectQueues, 3
	case "queue":
		r.object, args = objectQueue, 2
	case "jobs":
		r.object, args = objectJobs, 4
	case "scheduled-jobs":
		r.object, args = objectScheduled, 4
	case "job":
		r.object, args = objectJob, 2
	default:
		return textUnknown
	}
	if text := p.count(args); text != "" {
		return text
	}
	switch r.object {
	case objectJob:
		var ok bool
		if r.id, ok = parseID(p.args[1]); !ok || !usable(r.id) {
			return textID
		}
	case objectQueue, objectJobs, objectScheduled:
		if !validName(p.args[1]) {
			return textName
		}
		r.name = p.names.String(p.args[1])
	case objectServer, objectQueues:
	}
	if args < 3 {
		return ""
	}
	return p.page(r, p.args[args-2], p.args[args-1])
}

// page reads the cursor offset and the limit.
func (p *parser) page(r *request, offset, limit []byte) string {
	var ok bool
	if r.offset, ok = parseUint[uint32](offset, math.MaxUint32); !ok {
		return textOffset
	}
	if r.limit, ok = parseUint(limit, limitMax); !ok || r.limit == 0 {
		return textLimit
	}
	return ""
}

// parseID reads a UUID, also in braces or as a URN.
func parseID(word []byte) (dialect.UUID, bool) {
	switch len(word) {
	case dialect.UUIDLen + len("{}"):
		if word[0] != '{' || word[len(word)-1] != '}' {
			return dialect.UUID{}, false
		}
		word = word[1 : len(word)-1]
	case dialect.UUIDLen + len(urnPrefix):
		if string(word[:len(urnPrefix)]) != urnPrefix {
			return dialect.UUID{}, false
		}
		word = word[len(urnPrefix):]
	}
	return dialect.ParseUUID(word)
}

const urnPrefix = "urn:uuid:"

// usable reports whether a well-formed UUID may be an id: any but the nil one.
func usable(id dialect.UUID) bool { return id != dialect.UUID{} }

// parseUint reads decimal digits up to a greatest value.
func parseUint[T uint8 | uint32 | uint64 | int](word []byte, most T) (n T, ok bool) {
	if len(word) == 0 {
		return 0, false
	}
	for _, c := range word {
		d := T(c - '0')
		if c < '0' || c > '9' || d > most || n > (most-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, true
}

// parseInt32 reads a decimal integer, with a sign or without.
func parseInt32(word []byte) (int32, bool) {
	negative := len(word) > 0 && word[0] == '-'
	if negative || len(word) > 0 && word[0] == '+' {
		word = word[1:]
	}
	most := math.MaxInt32
	if negative {
		most++
	}
	n, ok := parseUint(word, most)
	if negative {
		n = -n
	}
	return int32(n), ok //nolint:gosec // checked against its limits
}

// parseSize reads the size of a block, which may have a sign.
func parseSize(word []byte, most int) (int, bool) {
	switch {
	case len(word) > 0 && word[0] == '+':
		word = word[1:]
	case len(word) > 0 && word[0] == '-':
		word, most = word[1:], 0 // minus zero is an integer, too
	}
	return parseUint(word, most)
}

// validName reports whether a name is 1 to 255 bytes of letters, digits,
// underscores, dots and hyphens.
func validName[T string | []byte](name T) bool {
	if len(name) == 0 || len(name) > nameMax {
		return false
	}
	for i := range len(name) {
		if !nameByte(name[i]) {
			return false
		}
	}
	return true
}

func nameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '.' || c == '-'
}
