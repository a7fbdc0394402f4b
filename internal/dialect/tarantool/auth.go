package tarantool

import (
	"crypto/sha1" //nolint:gosec // the protocol wants it
	"crypto/subtle"

	"millrace/internal/auth"
)

const (
	// guest is who a connection is before it has logged in.
	guest = "guest"
	// authMethod is the one way to log in.
	authMethod = "chap-sha1"
)

// users holds for each user the hash of the hash of the password: enough to check
// an answer, not enough to give one.
type users map[string][sha1.Size]byte

func newUsers(passwords map[string]string) users {
	u := make(users, len(passwords))
	for name, password := range passwords {
		first := sha1.Sum([]byte(password)) //nolint:gosec // the protocol wants it
		u[name] = sha1.Sum(first[:])        //nolint:gosec // the protocol wants it
	}
	return u
}

// check reports whether scramble was made with the user's password and this salt
// (protocol section A.5). An unknown user costs the same time as a known one.
func (u users) check(name, salt, scramble []byte) bool {
	hash, known := u[string(name)]
	h := sha1.New() //nolint:gosec // the protocol wants it
	h.Write(salt)
	h.Write(hash[:])
	var mask [sha1.Size]byte
	h.Sum(mask[:0])
	var first [sha1.Size]byte
	subtle.XORBytes(first[:], scramble, mask[:])
	second := sha1.Sum(first[:]) //nolint:gosec // the protocol wants it
	return subtle.ConstantTimeCompare(second[:], hash[:]) == 1 && known
}

// auth does AUTH. A failure leaves the connection as it was.
func (p *iproto) auth(c *conn) {
	r := &p.req
	if r.user == nil {
		p.missing(c, "user name")
		return
	}
	if r.tuple == nil {
		p.missing(c, "tuple")
		return
	}
	n, elements, _ := r.tuple.array()
	if n == 0 && string(r.user) == guest {
		p.user = guest
		p.ok(c)
		return
	}
	if n < 2 {
		p.fail(c, codeMsgPack, textMsgPack+"authentication request body")
		return
	}
	method, rest := cut(elements)
	scramble, _ := cut(rest)
	if name, ok := method.bytes(); !ok || string(name) != authMethod {
		p.fail(c, codeMsgPack, textMsgPack+"authentication method")
		return
	}
	answer, ok := scramble.bytes()
	switch {
	case !ok:
		p.fail(c, codeMsgPack, textMsgPack+"authentication scramble")
	case len(answer) != sha1.Size:
		p.fail(c, codeMsgPack, textMsgPack+"invalid scramble size")
	default:
		p.logIn(c, answer)
	}
}

// logIn checks the answer of a user.
func (p *iproto) logIn(c *conn, answer []byte) {
	name := p.req.user
	attempt := auth.Attempt{Door: p.d.Name(), Peer: c.RemoteAddr().String()}
	if _, known := p.d.users[string(name)]; known {
		attempt.Account = string(name)
	}
	switch p.d.opts.Throttle.Check(attempt, func() bool { return p.d.users.check(name, p.salt[:sha1.Size], answer) }) {
	case auth.Right:
		p.user = string(name)
		p.ok(c)
	case auth.Limited:
		p.fail(c, codeCredentials, "Too many incorrect passwords supplied from this address, try again in a few seconds")
	case auth.Wrong:
		// The same words for an unknown user: strangers need not know who exists.
		p.fail(c, codeCredentials, "Incorrect password supplied for user '"+string(name)+"'")
	}
}

// denied answers a guest who may not call anything, and reports whether it did.
func (p *iproto) denied(c *conn, function []byte) bool {
	if !p.d.opts.RequireLogin || p.user != guest {
		return false
	}
	p.fail(c, codeAccess, "Execute access to function '"+string(function)+"' is denied for user '"+p.user+"'")
	return true
}
