package machine_test

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/record"
	"millrace/internal/store"
)

// namespace is that of all commands which do not give one with ns=.
const namespace = "n"

// args are the words of a line behind its verb.
type args struct {
	s    *script
	line string
	verb string
	vals map[string]string
}

// parse splits a line at spaces; the ops of an atomic line are left for later.
func (s *script) parse(line string) *args {
	s.t.Helper()
	a := &args{s: s, line: line, vals: map[string]string{}}
	words := strings.Fields(line)
	a.verb = words[0]
	if a.verb == "atomic" {
		return a
	}
	for _, w := range words[1:] {
		name, value, _ := strings.Cut(w, "=")
		if _, twice := a.vals[name]; twice {
			s.fatalf("%s is given twice", name)
		}
		a.vals[name] = value
	}
	return a
}

// end refuses arguments that nothing has asked for.
func (a *args) end() {
	a.s.t.Helper()
	if len(a.vals) > 0 {
		a.s.fatalf("unknown arguments %v", slices.Sorted(maps.Keys(a.vals)))
	}
}

func (a *args) take(name string) (string, bool) {
	v, ok := a.vals[name]
	delete(a.vals, name)
	return v, ok
}

func (a *args) text(name string) string {
	v, _ := a.take(name)
	return v
}

func (a *args) flag(name string) bool {
	_, ok := a.take(name)
	return ok
}

func (a *args) list(name string) []string {
	v, ok := a.take(name)
	if !ok {
		return nil
	}
	return strings.Split(v, ",")
}

func (a *args) number(name string) int64 {
	v, ok := a.take(name)
	if !ok {
		return 0
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		a.s.fatalf("%s: %v", name, err)
	}
	return n
}

func (a *args) duration(name string) time.Duration {
	v, ok := a.take(name)
	if !ok {
		return 0
	}
	if v == "forever" {
		return job.WaitForever
	}
	d, err := time.ParseDuration(v)
	if err != nil {
		a.s.fatalf("%s: %v", name, err)
	}
	return d
}

// moment is a time given relative to now.
func (a *args) moment(name string) job.Time {
	if _, ok := a.vals[name]; !ok {
		return 0
	}
	return a.s.now.Add(a.duration(name))
}

func (a *args) ids(name string) []job.ID {
	var ids []job.ID
	for _, v := range a.list(name) {
		n, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			a.s.fatalf("%s: %v", name, err)
		}
		ids = append(ids, job.ID(n))
	}
	return ids
}

// enum is the index of the value among the names; the first is the default.
func (a *args) enum(name string, names ...string) uint8 {
	v, ok := a.take(name)
	if !ok {
		return 0
	}
	i := slices.Index(names, v)
	if i < 0 {
		a.s.fatalf("%s is none of %v", name, names)
	}
	return uint8(i)
}

func (a *args) place(name string) job.Place {
	return job.Place(a.enum(name, "tail", "old", "head", "back", "due", "sched"))
}

func (a *args) namespace() string {
	if ns, ok := a.take("ns"); ok {
		return ns
	}
	return namespace
}

// holder is a holder by its name, h1, h2 and so on.
func (a *args) holder(name string) job.Holder {
	v, ok := a.take(name)
	if !ok {
		return job.Holder{}
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(v, "h"), 10, 64)
	if err != nil {
		a.s.fatalf("%s: %v", name, err)
	}
	return job.Holder{Node: 1, Num: n}
}

func (a *args) state(name string) job.State {
	v, _ := a.take(name)
	st, ok := job.ParseState(v)
	if !ok {
		a.s.fatalf("%s: unknown state %q", name, v)
	}
	return st
}

// options are those that change what is seen; nextid makes the shard look old.
func (a *args) options() engine.CoreOptions {
	if id := a.number("nextid"); id > 0 {
		var b store.Batch
		shard := record.Shard{NextID: job.ID(id), NextSeq: 1, NextQueue: 1}
		b.Set(record.MetaKey(), record.AppendShard(nil, &shard))
		if err := store.CommitNow(a.s.store, &b); err != nil {
			a.s.fatalf("commit: %v", err)
		}
	}
	return engine.CoreOptions{
		Few: int(a.number("few")), SweepStep: int(a.number("sweepstep")),
		TimersPerCommand: int(a.number("timers")), KeptHolders: int(a.number("keptholders")),
	}
}

// ref names a job. An id without a queue is that of a job wherever it is, unless it is
// to stand alone.
func (a *args) ref() job.Ref {
	ns, q := a.namespace(), a.text("q")
	r := job.ByID(ns, q, 0)
	switch {
	case a.vals["queuenum"] != "":
		r = job.ByPlace(ns, uint32(a.number("queuenum")), job.ID(a.number("id")))
	case a.vals["key"] != "":
		r = job.ByKey(ns, a.text("key"))
	case a.vals["serial"] != "":
		r = job.BySerial(ns, q, uint64(a.number("serial")))
	case a.vals["num"] != "":
		r = job.ByNumber(ns, uint32(a.number("num")))
	case q != "" || a.flag("alone"):
		r.ID = job.ID(a.number("id"))
	default:
		return a.s.placeOf(ns, job.ID(a.number("id")))
	}
	r.Queue = q
	return r
}

// placeOf names a job by where it is.
func (s *script) placeOf(ns string, id job.ID) job.Ref {
	j, err := s.query().Get(job.ByID(ns, "", id))
	if err != nil {
		return job.ByPlace(ns, 0, id)
	}
	return j.Ref()
}

func (a *args) need() job.Need {
	return job.Need(a.enum("need", "held", "leased", "unfinished", "any", "free"))
}

func (a *args) spec() job.Spec {
	body, kind := a.text("body"), job.BodyBytes
	if body == "" {
		kind = job.BodyNone
	}
	s := job.Spec{
		Namespace: a.namespace(), Queue: a.text("q"), Key: a.text("key"), Unique: a.flag("unique"),
		Numbered: a.flag("numbered"), Type: a.text("type"), Group: a.text("group"),
		Body: []byte(body), BodyKind: kind, Extra: []byte(a.text("extra")),
		RunAt: a.moment("runat"), Delay: a.duration("delay"),
		TTL: a.duration("ttl"), TTLFromRun: a.flag("ttlfromrun"), At: a.place("at"),
		Lock: a.text("lock"), LockFor: a.duration("lockfor"),
		LockUntil: job.LockEnd(a.enum("lockuntil", "ack", "fetch")),
		Tracked:   a.flag("tracked"), Batch: job.BatchID(a.number("batch")), Fingerprint: a.digest("like"),
		Policy: job.Policy{
			Priority: a.number("pri"), Lease: a.duration("ttr"), ExpireAt: a.moment("expireat"),
			Expiry:      job.Expiry(a.enum("expiry", "always", "waiting")),
			MaxAttempts: uint32(a.number("attempts")), MaxFails: uint32(a.number("fails")),
			Backoff: job.Backoff{
				Unit: a.duration("unit"), Power: uint8(a.number("power")), Skip: uint8(a.number("skip")),
				Base: a.duration("base"), Jitter: uint32(a.number("jitter")), Floor: a.flag("floor"),
			},
			Lapse: job.Lapse(a.enum("lapse", "requeue", "fail")), Requeue: a.place("requeue"), Due: a.place("due"),
			Exhaust:   job.Exhaust(a.enum("exhaust", "drop", "dead", "keep", "move")),
			DeadQueue: a.text("deadqueue"), DeadFor: a.duration("deadfor"), DeadMax: uint32(a.number("deadmax")),
			DeadSlots: a.flag("deadslots"), Keep: a.flag("keep"),
		},
	}
	for _, id := range a.ids("after") {
		s.BlockedBy = append(s.BlockedBy, job.Blocker{QueueNum: a.s.placeOf(s.Namespace, id).QueueNum, ID: id})
	}
	for _, id := range a.ids("afternum") {
		s.BlockedBy = append(s.BlockedBy, job.Blocker{Number: uint32(id)})
	}
	for _, n := range a.ids("back") {
		s.BlockedBy = append(s.BlockedBy, job.Blocker{Back: int(n)})
	}
	return s
}

// commands are the verbs of the machine.
var commands = map[string]func(a *args) job.Command{
	"push": func(a *args) job.Command {
		return &job.Push{Past: a.past(), Spec: a.spec(), RoomWait: a.duration("room"), Unless: a.states("unless")}
	},
	"run":    func(a *args) job.Command { return &job.Run{Spec: a.spec(), Wait: a.duration("wait")} },
	"fetch":  fetchCommand,
	"ack":    ackCommand,
	"delete": deleteCommand,
	"fail": func(a *args) job.Command {
		return &job.Fail{
			Ref: a.ref(), By: a.holder("by"), Need: a.need(),
			Failure: job.Failure{Type: a.text("type"), Message: a.text("msg")}, Result: []byte(a.text("result")),
			Want: a.flag("want"),
		}
	},
	"release": func(a *args) job.Command {
		_, set := a.vals["pri"]
		return &job.Release{
			Ref: a.ref(), By: a.holder("by"), Need: a.need(), Place: a.place("place"), Delay: a.duration("delay"),
			TTL: a.duration("ttl"), StretchTTL: a.flag("stretch"), SetPriority: set, Priority: a.number("pri"),
			Want: a.flag("want"),
		}
	},
	"return": func(a *args) job.Command {
		c, ns := &job.Return{By: a.holder("by")}, a.namespace()
		for _, id := range a.ids("ids") {
			c.Refs = append(c.Refs, a.s.placeOf(ns, id))
		}
		return c
	},
	"bury": func(a *args) job.Command {
		_, set := a.vals["pri"]
		return &job.Bury{
			Ref: a.ref(), In: a.states("in"), By: a.holder("by"), Need: a.need(), Last: a.flag("last"),
			SetPriority: set, Priority: a.number("pri"), Want: a.flag("want"),
		}
	},
	"kick": func(a *args) job.Command {
		n, q := int(a.number("count")), a.vals["q"]
		return &job.Kick{
			Queue: q, Ref: a.ref(), One: n == 0, Namespace: namespace, Count: n,
			From: job.KickFrom(a.enum("from", "buried", "waiting", "either")), Want: a.flag("want"),
		}
	},
	"touch": func(a *args) job.Command {
		return &job.Touch{
			Ref: a.ref(), By: a.holder("by"), Need: a.need(), Until: a.moment("until"), Restart: a.flag("restart"),
			Add: a.duration("add"), NoEarlier: a.flag("noearlier"), Want: a.flag("want"),
		}
	},
	"promote": func(a *args) job.Command {
		return &job.Promote{Ref: a.ref(), In: a.states("in"), Place: a.place("place"), Want: a.flag("want")}
	},
	"kill": func(a *args) job.Command {
		return &job.Kill{Ref: a.ref(), In: a.states("in"), For: a.duration("for"), Want: a.flag("want")}
	},
	"respawn": func(a *args) job.Command {
		limited := a.vals["limit"] != ""
		c := &job.Respawn{
			One: !limited, In: a.states("in"), Namespace: a.namespace(), Queue: a.text("q"),
			Limit:    int(a.number("limit")),
			Attempts: uint32(a.number("attempts")), TTL: a.duration("ttl"), OwnAttempts: a.flag("ownattempts"),
			OwnExpiry: a.flag("ownexpiry"), Want: a.flag("want"),
		}
		if c.One {
			c.Ref = a.ref()
		}
		return c
	},
	"move": func(a *args) job.Command {
		return &job.Move{Queue: a.text("to"), Ref: a.ref(), In: a.states("in")}
	},
	"await":  func(a *args) job.Command { return &job.Await{Wait: a.duration("wait"), Ref: a.ref()} },
	"cancel": func(a *args) job.Command { return &job.Cancel{Token: a.waiter("who")} },
	"end": func(a *args) job.Command {
		return &job.EndHolder{Holder: a.holder("holder"), Grace: a.duration("grace")}
	},
	"keep": func(a *args) job.Command {
		return &job.KeepHolder{KeptHolder: job.KeptHolder{
			Name: a.text("name"), Holder: a.holder("holder"),
			Grace: a.duration("grace"),
		}}
	},
	"return-holder": func(a *args) job.Command { return &job.ResumeHolder{Holder: a.holder("holder")} },
	"release-all":   func(a *args) job.Command { return &job.ReleaseAll{Namespace: a.namespace(), Queue: a.text("q")} },
	"configure": func(a *args) job.Command {
		return &job.Configure{
			Namespace: a.namespace(), Queue: a.text("q"), Replace: a.flag("replace"),
			Settings: job.Settings{
				Capacity: uint64(a.number("capacity")), Serials: a.flag("serials"), Attrs: []byte(a.text("attrs")),
				OnePerGroup: a.flag("one-per-group"),
			},
		}
	},
	"limit": func(a *args) job.Command {
		return &job.SetLimits{Namespace: a.namespace(), Queue: a.text("q"), Limits: job.Limits{
			Concurrency: uint32(a.number("concurrency")), Worker: uint32(a.number("worker")),
			SlotFor: a.duration("slotfor"),
			Rate:    uint32(a.number("rate")), Per: a.duration("per"), Burst: uint32(a.number("burst")),
		}}
	},
	"hook": func(a *args) job.Command {
		c := &job.SetHooks{
			Hooks:   []job.Hook{{Namespace: a.namespace(), Queue: a.text("of")}},
			Replace: a.flag("replace"),
		}
		if a.flag("file") {
			c.Source = job.SourceFile
		}
		if !a.flag("off") {
			c.Hooks[0].Job = a.spec()
		}
		return c
	},
	"pause": func(a *args) job.Command {
		return &job.Pause{Namespace: a.namespace(), Queue: a.text("q"), For: a.duration("for"), Make: a.flag("make")}
	},
	"resume": func(a *args) job.Command { return &job.Resume{Namespace: a.namespace(), Queue: a.text("q")} },
	"purge": func(a *args) job.Command {
		return &job.Purge{
			Namespace: a.namespace(), Queue: a.text("q"), State: a.state("state"),
			Limit: int(a.number("limit")),
		}
	},
	"remove": func(a *args) job.Command {
		return &job.Remove{
			Namespace: a.namespace(), Queue: a.text("q"), ReadyOnly: a.flag("readyonly"),
			IfIdle: a.flag("ifidle"), KeepQueue: a.flag("keepqueue"),
		}
	},
	"flush":      func(a *args) job.Command { return &job.Flush{Namespace: a.namespace()} },
	"report":     reportCommand,
	"new-batch":  newBatchCommand,
	"open-batch": func(a *args) job.Command { return &job.OpenBatch{Namespace: a.namespace(), Batch: a.batch()} },
	"commit-batch": func(a *args) job.Command {
		return &job.CommitBatch{Namespace: a.namespace(), Batch: a.batch(), Rest: a.rest()}
	},
	"set-value": func(a *args) job.Command {
		return &job.SetValue{
			Space: a.text("space"), Name: a.text("name"), Value: []byte(a.text("value")),
			IfAbsent: a.flag("ifabsent"),
		}
	},
	"drop-value": func(a *args) job.Command { return &job.DropValue{Space: a.text("space"), Name: a.text("name")} },
	"atomic": func(a *args) job.Command {
		c := &job.Atomic{}
		_, rest, _ := strings.Cut(a.line, " ")
		for op := range strings.SplitSeq(rest, ";") {
			o := a.s.parse(op)
			build := atomicOps[o.verb]
			if build == nil {
				a.s.fatalf("%s in an atomic line", o.verb)
			}
			c.Ops = append(c.Ops, build(o))
			o.end()
		}
		return c
	},
}

// atomicOps are what may stand in an atomic line; fetch is there to be refused.
var atomicOps = map[string]func(a *args) job.Command{
	"push": func(a *args) job.Command {
		return &job.Push{Past: a.past(), Spec: a.spec(), Unless: a.states("unless")}
	},
	"ack":    ackCommand,
	"delete": deleteCommand,
	"fetch":  fetchCommand,
}

func fetchCommand(a *args) job.Command {
	_, set := a.vals["lease"]
	var one job.Ref
	named := a.vals["id"] != "" || a.vals["key"] != ""
	if named {
		one = a.ref()
	}
	return &job.Fetch{
		One: named, Ref: one, In: a.states("in"), Margin: a.duration("margin"),
		Namespace: a.namespace(), Queues: a.list("q"), Pick: job.Pick(a.enum("pick", "inorder", "random", "best")),
		Max: max(int(a.number("max")), 1), Wait: a.duration("wait"), Holder: a.holder("holder"),
		Exclusive: a.flag("exclusive"),
		OnEnd:     job.OnEnd(a.enum("end", "keep", "release", "fail")), Lease: a.duration("lease"), LeaseSet: set,
		DefaultLease: a.duration("default"),
	}
}

func ackCommand(a *args) job.Command {
	body, replace := a.take("newbody")
	return &job.Ack{
		Ref: a.ref(), By: a.holder("by"), Need: a.need(), Result: []byte(a.text("result")), Keep: a.flag("keep"),
		NewBody: replace, Body: []byte(body), BodyKind: job.BodyBytes, Want: a.flag("want"),
	}
}

func deleteCommand(a *args) job.Command {
	return &job.Delete{
		Ref: a.ref(), In: a.states("in"), By: a.holder("by"), Need: a.need(), AckHeld: a.flag("ackheld"),
		Want: a.flag("want"),
	}
}

// waiter is the token of somebody who waits, by name; zero is nobody.
func (a *args) waiter(name string) uint64 {
	v := a.text(name)
	for token, n := range a.s.waits {
		if n == v {
			return token
		}
	}
	return 0
}
