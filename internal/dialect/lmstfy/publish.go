package lmstfy

import (
	"net/http"
	"strings"
	"sync"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/dialect/jsonscan"
	"millrace/internal/job"
)

// publication is what the query of a publishing call says.
type publication struct {
	delay, ttl uint32 // seconds
	tries      uint16
	versioned  bool   // attributes are enabled
	extra      []byte // the attributes, rendered
	group      string
}

// publication reads the query. It has answered if it is not ok.
func (x *exchange) publication() (p publication, ok bool) {
	def := &x.d.opts.Defaults
	delay, ok := x.query.uint(paramDelay, uint64(def.Delay), secondsMax)
	if !ok {
		x.fail(http.StatusBadRequest, textDelay)
		return p, false
	}
	ttl, ok := x.query.uint(paramTTL, uint64(def.TTL), secondsMax)
	if !ok {
		x.fail(http.StatusBadRequest, textTTL)
		return p, false
	}
	if ttl > 0 && ttl < delay {
		x.fail(http.StatusBadRequest, textShortTTL)
		return p, false
	}
	group := strings.Clone(x.query.values[paramGroup])
	if len(group) > dialect.GroupMax {
		x.fail(http.StatusBadRequest, textGroup)
		return p, false
	}
	tries, ok := x.query.uint(paramTries, uint64(def.Tries), triesMax)
	switch {
	case !ok:
		x.fail(http.StatusBadRequest, textTries)
	case tries == 0:
		x.fail(http.StatusBadRequest, textZeroTries)
	default:
		//nolint:gosec // checked against their limits
		return publication{delay: uint32(delay), ttl: uint32(ttl), tries: uint16(tries), group: group}, true
	}
	return p, false
}

// attributes reads the attributes into p. It has answered if it is not ok.
func (x *exchange) attributes(p *publication) (ok bool) {
	if !hasAttributes(x.r.Header) {
		return true
	}
	p.versioned = true
	if p.extra, ok = appendAttributes(nil, x.r.Header); !ok {
		x.fail(http.StatusBadRequest, textAttributes)
	}
	return ok
}

func seconds[T uint32 | uint64](n T) time.Duration { return time.Duration(n) * time.Second }

// fill fills in the spec of a job, except for its id and body.
func (x *exchange) fill(s *job.Spec, p *publication, queue string) {
	s.Namespace, s.Queue = x.home, queue
	s.Extra, s.Group = p.extra, p.group
	s.Trace = job.ParseTrace(x.r.Header.Get(headerTrace))
	s.Delay, s.TTL = seconds(p.delay), seconds(p.ttl)
	fixed(s, uint32(p.tries))
}

// fixed fills in what all jobs have.
func fixed(s *job.Spec, tries uint32) {
	s.Unique = true
	s.Origin = dialect.DoorLmstfy
	s.Policy = job.Policy{
		MaxAttempts: tries,
		Lapse:       job.LapseRequeue,
		Requeue:     job.PlaceTail,
		Due:         job.PlaceTail,
		Expiry:      job.ExpireAlways,
		Exhaust:     job.ExhaustDead,
		DeadSlots:   true,
	}
}

// idTries is how often a publish is repeated whose id is taken, which only chance
// can bring about.
const idTries = 3

// publish publishes one job, and on the route that republishes takes another out in
// the same step.
func (x *exchange) publish() {
	p, ok := x.publication()
	if !ok {
		return
	}
	b := getBuffer()
	defer putBuffer(b)
	if !x.body(b, x.d.opts.MaxBody) || !x.attributes(&p) {
		return
	}
	s := &x.push.Spec
	x.fill(s, &p, x.queueName(x.queue))
	s.Body, s.BodyKind = b.in, job.BodyBytes
	var err *job.Error
	for range idTries {
		ms, n := x.d.ids.take(x.d.opts.Engine.Now(), 1)
		s.Key = jobID(ms, n, p.delay, p.versioned)
		if x.route == routeRepublish {
			err = x.replace()
		} else {
			err = x.do(&x.push).Err
		}
		if err == nil || err.Kind != job.Duplicate {
			break
		}
	}
	if err != nil {
		x.refuse(err)
		return
	}
	x.countPublished(&p, 1)
	b.out = appendPublished(b.out, s.Key)
	x.reply(http.StatusCreated, b.out)
}

// replace takes the job that the path names out and pushes the new one, both or
// neither. A job that is not there, or is finished, or is another's alone, is no
// obstacle.
func (x *exchange) replace() *job.Error {
	if len(x.id) > idMax {
		return x.do(&x.push).Err
	}
	gone := &job.Delete{Ref: refTo(x.home, x.push.Spec.Queue, x.id), Need: job.NeedUnfinished}
	err := x.do(&job.Atomic{Ops: []job.Command{gone, &x.push}}).Err
	if err != nil && (err.Kind == job.NotFound || err.Kind == job.Finished || err.Kind == job.NotOwner) {
		return x.do(&x.push).Err
	}
	if err == nil {
		x.pool.deleted.Add(1)
	}
	return err
}

func (x *exchange) countPublished(p *publication, n int) {
	jobs := uint64(n) //nolint:gosec // not negative
	x.pool.published.Add(jobs)
	if p.delay > 0 {
		x.pool.timed.Add(jobs)
	} else {
		x.pool.direct.Add(jobs)
	}
	if x.space == nil {
		return
	}
	if q := x.space.queue(x.queue); q != nil {
		q.published.Add(jobs)
	}
}

// bulk holds what a bulk request needs. Bulks are pooled.
type bulk struct {
	bodies [][]byte
	pushes [bulkMax]job.Push
	atomic job.Atomic
	ids    []string
}

var bulks = sync.Pool{New: func() any { return new(bulk) }}

func (k *bulk) release() {
	clear(k.bodies)
	clear(k.pushes[:len(k.atomic.Ops)])
	clear(k.atomic.Ops)
	clear(k.ids)
	k.bodies, k.atomic.Ops, k.ids = k.bodies[:0], k.atomic.Ops[:0], k.ids[:0]
	bulks.Put(k)
}

// parse finds the elements of a JSON array, each in its exact spelling. It returns
// the answer if they are not what they should be.
func (k *bulk) parse(text []byte, elementMax int) (status int, refused string) {
	r := jsonscan.ReadArray(text)
	count, large := 0, false
	for {
		_, value, ok := r.Next()
		if !ok {
			break
		}
		if count++; count <= bulkMax {
			k.bodies = append(k.bodies, value)
			large = large || len(value) > elementMax
		}
	}
	switch {
	case r.Err() != nil:
		return http.StatusBadRequest, textNotArray
	case count == 0:
		return http.StatusBadRequest, textNoJobs
	case count > bulkMax:
		return http.StatusBadRequest, textManyJobs
	case large:
		return http.StatusRequestEntityTooLarge, textBodyLarge
	}
	return 0, ""
}

// publishBulk publishes the elements of an array, all or none.
func (x *exchange) publishBulk() {
	p, ok := x.publication()
	if !ok {
		return
	}
	b := getBuffer()
	defer putBuffer(b)
	if !x.body(b, x.d.bulkLimit()) {
		return
	}
	k, ok := bulks.Get().(*bulk)
	if !ok {
		return // the pool holds nothing else
	}
	defer k.release()
	if status, text := k.parse(b.in, x.d.opts.MaxBody); text != "" {
		x.fail(status, text)
		return
	}
	if !x.attributes(&p) {
		return
	}
	if err := x.pushAll(k, &p); err != nil {
		x.refuse(err)
		return
	}
	x.countPublished(&p, len(k.bodies))
	b.out = appendPublishedAll(b.out, k.ids)
	x.reply(http.StatusCreated, b.out)
}

func (x *exchange) pushAll(k *bulk, p *publication) (err *job.Error) {
	queue := x.queueName(x.queue)
	for range idTries {
		k.atomic.Ops, k.ids = k.atomic.Ops[:0], k.ids[:0]
		ms, n := x.d.ids.take(x.d.opts.Engine.Now(), len(k.bodies))
		for i, body := range k.bodies {
			s := &k.pushes[i].Spec
			x.fill(s, p, queue)
			s.Body, s.BodyKind = body, job.BodyJSON
			s.Key = jobID(ms, n+uint64(i), p.delay, p.versioned)
			k.ids = append(k.ids, s.Key)
			k.atomic.Ops = append(k.atomic.Ops, &k.pushes[i])
		}
		if err = x.do(&k.atomic).Err; err == nil || err.Kind != job.Duplicate {
			break
		}
	}
	return err
}
