package tarantool

import "github.com/tinylib/msgp/msgp"

// shutdownEvent is the event that tells that the server is stopping. It is the only
// one that ever changes.
const shutdownEvent = "box.shutdown"

// watchedMax bounds how many events a connection may watch.
const watchedMax = 1024

// watch registers an event and tells its value. The same again is the client's way
// to say that it has taken notice: it is answered only if the value has changed.
func (p *iproto) watch(c *conn) {
	key := p.req.event
	if key == nil || p.watched[string(key)] || len(p.watched) >= watchedMax {
		return
	}
	if p.watched == nil {
		p.watched = make(map[string]bool)
	}
	p.watched[string(key)] = true
	p.event(c, string(key), c.Draining())
}

func (p *iproto) unwatch(*conn) { delete(p.watched, string(p.req.event)) }

// watchOnce answers the value of an event.
func (p *iproto) watchOnce(c *conn) {
	if p.req.event == nil {
		p.missing(c, "event key")
		return
	}
	p.list(c)
}

// event tells the value of an event: true if the server is stopping and this is the
// event for it, else none.
func (p *iproto) event(c *conn, key string, stopping bool) {
	out := c.Out()
	start := len(out)
	out = append(out, 0xce, 0, 0, 0, 0, 0x81, keyType, typeEvent)
	if stopping && key == shutdownEvent {
		out = append(out, 0x82, keyEvent)
		out = msgp.AppendString(out, key)
		out = append(out, keyEventData, mpTrue)
	} else {
		out = append(out, 0x81, keyEvent)
		out = msgp.AppendString(out, key)
	}
	setSize(out, start)
	c.SetOut(out)
}

// goodbye tells those who want to know that the server is stopping.
func (p *iproto) goodbye(c *conn) {
	if p.watched[shutdownEvent] {
		p.event(c, shutdownEvent, true)
	}
}
