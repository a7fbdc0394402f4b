package tarantool

import (
	"millrace/internal/dialect/tarantool/iproto"
	"millrace/internal/dialect/tarantool/proc"
)

// shutdownEvent is the event that tells that the server is stopping. It is the only
// one that ever changes.
const shutdownEvent = "box.shutdown"

// watchedMax bounds how many events a connection may watch.
const watchedMax = 1024

// watch registers an event and tells its value. The same again is the client's way
// to say that it has taken notice: it is answered only if the value has changed.
func (p *iprotoWire) watch(c *proc.Conn) {
	key := p.req.Event
	if key == nil || p.watched[string(key)] || len(p.watched) >= watchedMax {
		return
	}
	if p.watched == nil {
		p.watched = make(map[string]bool)
	}
	p.watched[string(key)] = true
	p.event(c, string(key), c.Draining())
}

func (p *iprotoWire) unwatch(*proc.Conn) { delete(p.watched, string(p.req.Event)) }

// watchOnce answers the value of an event.
func (p *iprotoWire) watchOnce(c *proc.Conn) {
	if p.req.Event == nil {
		p.missing(c, "event key")
		return
	}
	p.list(c)
}

// event tells the value of an event: true if the server is stopping and this is the
// event for it, else none.
func (p *iprotoWire) event(c *proc.Conn, key string, stopping bool) {
	c.SetOut(iproto.AppendEvent(c.Out(), key, stopping && key == shutdownEvent))
}

// Goodbye tells those who want to know that the server is stopping.
func (p *iprotoWire) Goodbye(c *proc.Conn) {
	if p.watched[shutdownEvent] {
		p.event(c, shutdownEvent, true)
	}
}

// Leave ends the connection's part in its session.
func (p *iprotoWire) Leave() { p.queue.Leave() }
