package lmstfy

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"millrace/internal/auth"
	"millrace/internal/dialect"
	"millrace/internal/engine"
	"millrace/internal/job"
)

// exchange is one request and its answer. Exchanges are pooled with what they need
// to ask the engine: a request allocates nothing that the last one has left behind.
type exchange struct {
	d         *Dialect
	w         http.ResponseWriter
	r         *http.Request
	began     time.Time
	requestID string
	status    int // what has been answered; zero: nothing yet

	target
	query  query
	pool   *pool
	space  *space // figures of the namespace; nil if it has none
	home   string // the namespace in the engine
	token  string
	ticket ticket

	caller *engine.Caller
	push   job.Push
	ack    job.Ack
	fetch  job.Fetch
	queues []string

	// The values of headers, so that they need no slices of their own.
	idValue, lengthValue [1]string
}

// queuesKept is how long a list of queues may be for its slice to be used again.
const queuesKept = 64

func (d *Dialect) newExchange() any {
	return &exchange{d: d, caller: d.opts.Engine.NewCallerAt(dialect.DoorLmstfy)}
}

// serveHTTP answers one request of the public API.
func (d *Dialect) serveHTTP(w http.ResponseWriter, r *http.Request) {
	x, ok := d.exchanges.Get().(*exchange)
	if !ok {
		return // the pool holds nothing else
	}
	x.w, x.r, x.began = w, r, time.Now()
	x.requestID = newRequestID(x.began)
	defer func() {
		if p := recover(); p != nil {
			x.panicked(p) // and is not used again: the engine may still have its request
			return
		}
		x.finish()
		x.release()
	}()
	x.handle()
}

// panicked answers a request whose handling has failed in a way that nobody has
// thought of.
func (x *exchange) panicked(p any) {
	if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(p)
	}
	x.d.opts.Logger.Error("panic in a request", slog.String("dialect", x.d.Name()), slog.String("req_id", x.requestID),
		slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
	x.ticket.giveBack()
	if x.status == 0 {
		x.fail(http.StatusInternalServerError, textInternal)
	}
}

// finish counts and logs the request.
func (x *exchange) finish() {
	if x.status != http.StatusOK && x.status != http.StatusCreated {
		x.ticket.giveBack()
	}
	took := time.Since(x.began)
	x.d.commands.Count(int(x.route), x.served(), took)
	if x.space != nil {
		x.space.routes[x.route].count(x.status, took)
	}
	name := ""
	if x.pool != nil {
		name = x.pool.name
	}
	x.d.logAccess(x.r, name, x.r.URL.Path, x.requestID, x.status, took)
}

// served reports whether the request was answered with what it asked for. That no job came in time is an answer,
// too.
func (x *exchange) served() bool {
	return x.status < http.StatusBadRequest || x.route == routeConsume && x.status == http.StatusNotFound
}

// release lets go of everything that belongs to the request.
func (x *exchange) release() {
	clear(x.queues)
	if cap(x.queues) > queuesKept {
		x.queues = nil
	}
	*x = exchange{d: x.d, caller: x.caller, queues: x.queues[:0]}
	x.d.exchanges.Put(x)
}

// handle goes through the checks in the order of the protocol and then does what the
// route says.
func (x *exchange) handle() {
	if refused := x.d.opts.Site.Check(x.r); refused != nil {
		x.fail(refused.Status, refused.Text)
		return
	}
	x.target = parsePath(x.r.Method, x.r.URL.Path)
	if x.route == routeNone {
		x.unknown()
		return
	}
	if text := checkNames(&x.target); text != "" {
		x.fail(http.StatusBadRequest, text)
		return
	}
	x.query.parse(x.r.URL.RawQuery)
	if !x.admit() {
		return
	}
	switch x.route {
	case routePublish, routeRepublish:
		x.publish()
	case routeBulk:
		x.publishBulk()
	case routeConsume:
		x.consume()
	case routeDelete:
		x.delete()
	case routePeek:
		x.peek()
	case routePeekJob:
		x.peekJob()
	case routeSize:
		x.size(job.Ready)
	case routeDeadSize:
		x.size(job.Dead)
	case routeDestroy:
		x.destroy()
	case routeDead:
		x.peekDead()
	case routeRespawn:
		x.respawn()
	case routeDropDead:
		x.dropDead()
	case routeNone: // answered above
	}
}

// unknown answers a request that is none of the API's: the document of the API, or
// that there is no such thing.
func (x *exchange) unknown() {
	if x.r.Method == http.MethodGet && x.r.URL.Path == openapiPath {
		x.reply(http.StatusOK, openapiPublic())
		return
	}
	x.fail(http.StatusNotFound, textNotAPI)
}

// admit finds the pool and checks the token and its limits. It has answered if it
// reports false.
func (x *exchange) admit() bool {
	name, token := splitToken(x.tokenText())
	x.token = token
	if x.pool = x.d.pools[name]; x.pool == nil {
		x.fail(http.StatusNotFound, textPool)
		return false
	}
	info := &routes[x.route]
	asked := x.d.opts.Auth && !info.open
	key := tokenKey{x.pool.name, x.namespace, token}
	if asked && token == "" {
		x.fail(http.StatusUnauthorized, textNoToken)
		return false
	}
	if asked && !x.proves(key) {
		return false
	}
	x.enter(x.d.opts.Auth && info.open)
	if info.side == sideNone {
		return true
	}
	if l := x.d.registry.limiter(key); l != nil {
		var ok bool
		if x.ticket, ok = l.take(info.side, x.began); !ok {
			x.reply(http.StatusTooManyRequests, appendLimited(nil, token, info.side))
			return false
		}
	}
	return true
}

// proves checks the token. It has answered if it reports false.
func (x *exchange) proves(key tokenKey) bool {
	attempt := auth.AttemptOf(x.r, x.d.Name(), key.pool+":"+key.namespace, key.token)
	switch x.d.opts.Throttle.Check(attempt, func() bool { return x.d.registry.valid(key) }) {
	case auth.Right:
		return true
	case auth.Limited:
		x.fail(http.StatusTooManyRequests, textTooMany)
	case auth.Wrong:
		x.fail(http.StatusUnauthorized, textToken)
	}
	return false
}

// enter finds the namespace. A stranger, who needs no token for a route, makes no
// figures for a namespace that has none.
func (x *exchange) enter(stranger bool) {
	if stranger {
		x.space = x.pool.spaces.get(x.namespace)
	} else {
		x.space = x.pool.add(x.namespace)
	}
	if x.space != nil {
		x.home = x.space.engine
	} else {
		x.home = x.pool.prefix + strings.Clone(x.namespace)
	}
}

// tokenText returns the token of the request: the header's, or else the query's.
func (x *exchange) tokenText() string {
	if v := x.r.Header["X-Token"]; len(v) > 0 && v[0] != "" {
		return v[0]
	}
	return x.query.values[paramToken]
}

// queueName returns the name of a queue as a string of its own: the engine keeps it,
// and it must not keep the whole path with it.
func (x *exchange) queueName(name string) string {
	if x.space != nil {
		if q := x.space.queues.get(name); q != nil {
			return q.name
		}
	}
	return strings.Clone(name)
}

// do applies a command that does not wait.
func (x *exchange) do(cmd job.Command) *job.Result {
	return &x.caller.Do(context.Background(), cmd)[0]
}

// fail answers an error.
func (x *exchange) fail(status int, text string) {
	b := getBuffer()
	b.out = appendError(b.out, text)
	x.reply(status, b.out)
	putBuffer(b)
}

// refuse answers a refusal of the engine.
func (x *exchange) refuse(err *job.Error) {
	status, text := refusal(err.Kind)
	x.fail(status, text)
}

// failed answers an error of a read. What is no refusal is logged: the client learns
// nothing of it.
func (x *exchange) failed(err error) {
	if refused, ok := errors.AsType[*job.Error](err); ok {
		x.refuse(refused)
		return
	}
	x.d.opts.Logger.Error("cannot read jobs", slog.String("dialect", x.d.Name()), slog.String("req_id", x.requestID),
		slog.Any("error", err))
	x.fail(http.StatusInternalServerError, textInternal)
}

// answerTime gives the client its time to take the answer. The deadline that net/http has set
// counts from the head of the request, and may have passed while its body came, while a job was
// waited for, or while the disk was slow.
func (x *exchange) answerTime() {
	if time.Since(x.began) > x.d.opts.WriteTimeout {
		// An error means that the connection is gone, which the write finds.
		_ = http.NewResponseController(x.w).SetWriteDeadline(time.Now().Add(x.d.opts.WriteTimeout))
	}
}

// lengths are the texts of small lengths.
var lengths = func() (t [1024]string) {
	for i := range t {
		t[i] = strconv.Itoa(i)
	}
	return t
}()

// reply answers. The headers are complete and the body is one piece, so that all
// leaves with a single write when the handler returns; an error shows there or in
// deliver. Names of headers are given as they are, which spares bringing them into
// net/http's form.
func (x *exchange) reply(status int, body []byte) {
	x.status = status
	x.answerTime()
	h := x.w.Header()
	x.idValue[0] = x.requestID
	h[headerRequestID] = x.idValue[:]
	if status != http.StatusNoContent {
		h[headerContentType] = valuesJSON
		if len(body) < len(lengths) {
			x.lengthValue[0] = lengths[len(body)]
		} else {
			x.lengthValue[0] = strconv.Itoa(len(body))
		}
		h[headerLength] = x.lengthValue[:]
	}
	x.w.WriteHeader(status)
	if len(body) > 0 {
		_, _ = x.w.Write(body) // the connection has failed, which its next read finds
	}
}
