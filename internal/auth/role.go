package auth

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
	"sync/atomic"
)

// Role is what somebody may do.
type Role uint8

// The roles. A higher one includes the lower ones.
const (
	RoleNone     Role = iota // nothing
	RoleRead                 // see everything
	RoleOperator             // change everything
)

var roleNames = [...]string{"none", "read", "operator"}

// String returns the role's name.
func (r Role) String() string { return roleNames[r] }

// LoginOptions are the secrets that open an HTTP listener. Empty ones open nothing; without
// any the listener is open to everybody.
type LoginOptions struct {
	Password     string // of operators, with whatever user name
	ReadPassword string // of those who only look
	Token        string // as the passwords, for programs
	ReadToken    string
	// Throttle bounds how often somebody may be wrong; nil bounds nothing.
	Throttle *Throttle
}

// Login tells who may do what on an HTTP listener.
type Login struct {
	throttle *Throttle
	current  atomic.Pointer[secrets]
}

// secrets are what opens a listener at a time.
type secrets struct {
	passwords []secret
	tokens    []secret
	proof     Proof
}

// Proof stands for all secrets of a time without telling them: with the first that changes it is another one.
type Proof [sha256.Size]byte

// secret is what proves a role. Only its hash is kept, which makes all of one length.
type secret struct {
	sum  [sha256.Size]byte
	role Role
}

// NewLogin returns the login for some secrets.
func NewLogin(o LoginOptions) *Login {
	l := Login{throttle: o.Throttle}
	l.Set(o)
	return &l
}

// Set replaces the secrets.
func (l *Login) Set(o LoginOptions) {
	next := new(secrets)
	proof := sha256.New()
	add := func(to *[]secret, text string, role Role) {
		sum := sha256.Sum256([]byte(text))
		_, _ = proof.Write(sum[:]) // it cannot fail
		if text != "" {
			*to = append(*to, secret{sum, role})
		}
	}
	add(&next.passwords, o.Password, RoleOperator)
	add(&next.passwords, o.ReadPassword, RoleRead)
	add(&next.tokens, o.Token, RoleOperator)
	add(&next.tokens, o.ReadToken, RoleRead)
	next.proof = Proof(proof.Sum(nil))
	l.current.Store(next)
}

// Proof returns the proof of the current secrets: what was proved under another one is not proved any more.
func (l *Login) Proof() Proof { return l.current.Load().proof }

// Required reports whether anything is asked for at all.
func (l *Login) Required() bool {
	s := l.current.Load()
	return len(s.passwords)+len(s.tokens) > 0
}

// Password returns the role of who knows a password; RoleNone if it is none.
func (l *Login) Password(text string) Role { return find(l.current.Load().passwords, text) }

// Token returns the role of who has a token; RoleNone if it is none.
func (l *Login) Token(text string) Role { return find(l.current.Load().tokens, text) }

// find looks at every secret for as long, so that the time tells nothing.
func find(secrets []secret, text string) Role {
	sum := sha256.Sum256([]byte(text))
	role := 0
	for i := range secrets {
		same := subtle.ConstantTimeCompare(sum[:], secrets[i].sum[:])
		role = subtle.ConstantTimeSelect(same, max(role, int(secrets[i].role)), role)
	}
	return Role(role)
}

// door is what a Login opens, and the accounts are those of its secrets: any user name will do.
const (
	door            = "web"
	accountPassword = "password"
	accountToken    = "token"
)

// Of returns the role of who sent a request, by its Authorization header, and whether what is there is right.
func (l *Login) Of(r *http.Request) (Role, Verdict) {
	if !l.Required() {
		return RoleOperator, Right
	}
	if _, password, ok := r.BasicAuth(); ok {
		return l.check(r, accountPassword, password, l.Password)
	}
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if ok && strings.EqualFold(scheme, "Bearer") {
		return l.check(r, accountToken, strings.TrimSpace(token), l.Token)
	}
	return RoleNone, Wrong
}

// OfForm returns the role of who sent a password or token with a form.
func (l *Login) OfForm(r *http.Request, text string) (Role, Verdict) {
	if !l.Required() {
		return RoleOperator, Right
	}
	return l.check(r, accountPassword, text, func(text string) Role { return max(l.Password(text), l.Token(text)) })
}

// check looks at a secret, unless there were too many wrong ones.
func (l *Login) check(r *http.Request, account, secret string, role func(string) Role) (Role, Verdict) {
	found := RoleNone
	verdict := l.throttle.Check(AttemptOf(r, door, account, secret), func() bool {
		found = role(secret)
		return found != RoleNone
	})
	if verdict != Right {
		return RoleNone, verdict
	}
	return found, Right
}
