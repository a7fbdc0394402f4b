package queue

import (
	"bytes"
	"strconv"
	"sync"
	"time"

	"github.com/tinylib/msgp/msgp"

	"millrace/internal/dialect"
	"millrace/internal/dialect/tarantool/iproto"
	"millrace/internal/dialect/tarantool/proc"
	"millrace/internal/job"
)

// tubeKind is the type of a tube.
type tubeKind uint8

const (
	kindFIFO tubeKind = iota
	kindFIFOTTL
	kindUTube
	kindUTubeTTL
	kindLimFIFOTTL
)

var kindNames = [...]string{"fifo", "fifottl", "utube", "utubettl", "limfifottl"}

func parseKind(name []byte) (tubeKind, bool) {
	for i, n := range kindNames {
		if n == string(name) {
			return tubeKind(i), true
		}
	}
	return 0, false
}

// timed reports whether tasks have a priority, a delay, a time to live and a time
// to run.
func (k tubeKind) timed() bool { return k != kindFIFO && k != kindUTube }

// grouped reports whether at most one task of a sub-queue is taken at a time.
func (k tubeKind) grouped() bool { return k == kindUTube || k == kindUTubeTTL }

// tube is what calls need to know of a queue. It does not change: a queue whose
// settings change gets another one.
type tube struct {
	name string
	kind tubeKind
	ttl  time.Duration // proc.Century: for ever; so with ttr
	ttr  time.Duration
	pri  uint64
}

// newTube returns the tube of a queue. Queues that were never created as tubes serve
// as fifottl without any defaults.
func newTube(name string, settings *job.Settings) *tube {
	t := &tube{name: name, kind: kindFIFOTTL, ttl: proc.Century, ttr: proc.Century}
	if n, err := iproto.Skip(settings.Attrs); err != nil || n != len(settings.Attrs) {
		return t
	}
	attrs, ok := iproto.Value(settings.Attrs).Fields()
	if !ok {
		return t
	}
	for key, val, more := attrs.Next(); more; key, val, more = attrs.Next() {
		name, _ := key.Bytes()
		switch string(name) {
		case "type":
			b, _ := val.Bytes()
			if kind, ok := parseKind(b); ok {
				t.kind = kind
			}
		case "ttl":
			t.ttl = durationOf(val)
		case "ttr":
			t.ttr = durationOf(val)
		case "pri":
			t.pri, _ = val.Uint()
		}
	}
	return t
}

func durationOf(v iproto.Value) time.Duration {
	f, _ := v.Number()
	return proc.Seconds(f)
}

// attrs are what newTube reads back from the settings of the queue, which are stored:
// a name keeps its meaning for good. Names that it does not know are ignored, so others
// can be added.
func (t *tube) attrs(temporary bool) []byte {
	b := msgp.AppendMapHeader(nil, 5)
	b = msgp.AppendString(b, "type")
	b = msgp.AppendString(b, kindNames[t.kind])
	b = msgp.AppendString(b, "ttl")
	b = msgp.AppendFloat64(b, t.ttl.Seconds())
	b = msgp.AppendString(b, "ttr")
	b = msgp.AppendFloat64(b, t.ttr.Seconds())
	b = msgp.AppendString(b, "pri")
	b = msgp.AppendUint64(b, t.pri)
	b = msgp.AppendString(b, "temporary")
	return msgp.AppendBool(b, temporary)
}

// tubes are the tubes that have been used, by name. They hold for one version of the
// engine's queues.
type tubes struct {
	mu      sync.RWMutex // guards what follows
	version uint64
	byName  map[string]*tube
}

// tubesKept is how many are kept.
const tubesKept = 1 << 16

func (t *tubes) get(version uint64, name []byte) *tube {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.version != version {
		return nil
	}
	return t.byName[string(name)]
}

// put keeps a tube that was read when the queues had this version, or a later one.
func (t *tubes) put(version uint64, found *tube) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byName == nil || t.version != version || len(t.byName) >= tubesKept {
		t.byName, t.version = make(map[string]*tube), version
	}
	t.byName[found.name] = found
}

// findTube returns the tube of that name; nil if there is no such queue.
func (q *Client) findTube(name []byte) *tube {
	version := q.engine.QueuesVersion()
	if t := q.tubes.get(version, name); t != nil {
		return t
	}
	q.conn.Settle()
	found, ok, err := q.engine.Queue(q.namespace, string(name))
	if err != nil {
		q.conn.LogReadFailed(err)
	}
	if err != nil || !ok || found.Hidden {
		return nil
	}
	t := newTube(found.Name, &found.Settings)
	q.tubes.put(version, t)
	return t
}

// HasTube reports whether there is a tube of that name.
func (q *Client) HasTube(name []byte) bool { return q.findTube(name) != nil }

// tubeNameMax is the length of the longest name of a tube.
const tubeNameMax = 64

func validTubeName(name []byte) bool {
	for _, c := range name {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-', c == '.':
		default:
			return false
		}
	}
	return len(name) > 0 && len(name) <= tubeNameMax
}

// creation is what create_tube asks for.
type creation struct {
	tube        tube
	temporary   bool
	ifNotExists bool
	capacity    uint64
	engine      string
}

const (
	engineVinyl = "vinyl"
	textVinyl   = "limfifottl queue does not support vinyl engine"
)

// createTube is queue.create_tube. A queue that others have pushed into before
// becomes a tube by it.
func (q *Client) createTube(c *proc.Call) {
	name, ok := c.Args.At(0).Bytes()
	if !ok || !validTubeName(name) {
		c.Raise("Invalid tube name '" + show(c.Args.At(0)) + "'")
		return
	}
	var n creation
	n.tube = tube{name: string(name), ttl: proc.Century, ttr: proc.Century}
	if text := n.options(c.Args.At(2)); text != "" {
		c.Raise(text)
		return
	}
	kind, ok := c.Args.At(1).Bytes()
	if ok {
		n.tube.kind, ok = parseKind(kind)
	}
	if !ok {
		if n.ifNotExists && q.isConfigured(c, n.tube.name) {
			c.Nothing()
			return
		}
		c.Raise("Unknown tube type " + show(c.Args.At(1)))
		return
	}
	if n.tube.kind != kindLimFIFOTTL {
		n.capacity = 0
	} else if n.engine == engineVinyl && !q.isConfigured(c, n.tube.name) {
		c.Raise(textVinyl) // of one that exists it is not asked
		return
	}
	res := c.Do(n.command(q.namespace))
	switch err := res[0].Err; {
	case err == nil, err.Kind == job.Exists && n.ifNotExists:
		c.Nothing()
	case err.Kind == job.Exists:
		c.Raise("Space '" + n.tube.name + "' already exists")
	default:
		c.Refuse(err)
	}
}

// command makes a queue a tube.
func (n *creation) command(namespace string) *job.Configure {
	return &job.Configure{
		Namespace: namespace, Queue: n.tube.name,
		Settings: job.Settings{
			Capacity: n.capacity, Serials: true, Attrs: n.tube.attrs(n.temporary), OnePerGroup: n.tube.kind.grouped(),
		},
	}
}

// options reads the options of a new tube. It returns the error text.
func (n *creation) options(v iproto.Value) string {
	opts, ok := v.Fields()
	if !ok {
		return proc.TextInvalid
	}
	hasTTR := false
	for key, val, more := opts.Next(); more; key, val, more = opts.Next() {
		if val.IsNil() {
			continue
		}
		name, _ := key.Bytes()
		ok := true
		switch string(name) {
		case "if_not_exists":
			n.ifNotExists, ok = val.Bool()
		case "temporary":
			n.temporary, ok = val.Bool()
		case "ttl":
			n.tube.ttl, ok = secondsOf(val)
		case "ttr":
			n.tube.ttr, ok = secondsOf(val)
			hasTTR = true
		case "pri":
			n.tube.pri, ok = val.Uint()
		case "capacity":
			n.capacity, ok = val.Uint()
		case "engine": // all are kept alike, so others are not looked at
			b, _ := val.Bytes()
			n.engine = string(b)
		}
		if !ok {
			return "Invalid value of " + string(name) + ": " + show(val)
		}
	}
	if !hasTTR {
		n.tube.ttr = n.tube.ttl
	}
	return ""
}

func secondsOf(v iproto.Value) (time.Duration, bool) {
	f, ok := v.Number()
	return proc.Seconds(f), ok
}

// isConfigured reports whether a queue was made by create_tube.
func (q *Client) isConfigured(c *proc.Call, name string) bool {
	c.Settle()
	found, ok, err := q.engine.Queue(q.namespace, name)
	return err == nil && ok && found.Configured
}

// TubeExists answers whether there is a tube at a path.
func (q *Client) TubeExists(c *proc.Call) {
	name, ok := bytes.CutPrefix(c.Name, []byte(tubePrefix))
	exists := ok && q.HasTube(name)
	r := c.Begin()
	r.Lone()
	r.Bool(exists)
	c.End(&r)
}

// listTubes is queue.tube: the names of all tubes, or whether there is one of a name.
func (q *Client) listTubes(c *proc.Call) {
	if arg := c.Args.At(0); !arg.IsNil() {
		name, ok := arg.Bytes()
		exists := ok && q.HasTube(name) // before begin: nothing may be answered in between
		r := c.Begin()
		r.Lone()
		r.Bool(exists)
		c.End(&r)
		return
	}
	c.Settle()
	defer c.Conn.TakeAlone()()
	shown, err := dialect.Shown(q.engine, q.namespace)
	if err != nil {
		c.ReadFailed(err)
		return
	}
	r := c.Begin()
	r.Tuple(len(shown))
	for i := range shown {
		r.Str(shown[i].Name)
	}
	c.End(&r)
}

// show returns a value as text, as messages quote it.
func show(v iproto.Value) string {
	if b, ok := v.Bytes(); ok {
		return string(b[:min(len(b), shownMax)])
	}
	if n, ok := v.Uint(); ok {
		return strconv.FormatUint(n, 10)
	}
	if f, ok := v.Number(); ok {
		return strconv.FormatFloat(f, 'g', -1, 64)
	}
	if b, ok := v.Bool(); ok {
		return strconv.FormatBool(b)
	}
	if v.IsNil() {
		return "nil"
	}
	return "table"
}

// shownMax is how much of a string is quoted.
const shownMax = 256
