package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"sync"
	"time"
)

const (
	// SessionCookie is the name of the cookie that holds a session.
	SessionCookie = "millrace_session"
	// SessionTime is how long a session lasts.
	SessionTime = 12 * time.Hour
	// sessionMax bounds the sessions that are open; the one that ends first makes room.
	sessionMax = 1000
)

// sessions are the logins that have not ended. They do not survive a restart.
type sessions struct {
	mu   sync.Mutex // guards what follows
	open map[[sha256.Size]byte]session
}

type session struct {
	role Role
	ends time.Time
}

// Begin opens a session for who knows a password or a token, and returns the value of its cookie; not
// ok if the secret is none.
func (l *Login) Begin(secret string) (value string, role Role, ok bool) {
	if role = max(l.Password(secret), l.Token(secret)); role == RoleNone {
		return "", RoleNone, false
	}
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	value = hex.EncodeToString(b[:])
	l.sessions.add(value, session{role, time.Now().Add(SessionTime)})
	return value, role, true
}

// End ends a session. One that is not there is no matter.
func (l *Login) End(value string) {
	l.sessions.mu.Lock()
	defer l.sessions.mu.Unlock()
	delete(l.sessions.open, sha256.Sum256([]byte(value)))
}

func (s *sessions) add(value string, begun session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = make(map[[sha256.Size]byte]session)
	}
	var first [sha256.Size]byte
	now := time.Now()
	for sum, old := range s.open {
		if !now.Before(old.ends) {
			delete(s.open, sum)
		} else if best, ok := s.open[first]; !ok || old.ends.Before(best.ends) {
			first = sum
		}
	}
	if len(s.open) >= sessionMax {
		delete(s.open, first)
	}
	s.open[sha256.Sum256([]byte(value))] = begun
}

// of returns the role of the session that a request's cookie names. It is found by the hash of the
// value, so that the time tells nothing about those that are open.
func (s *sessions) of(r *http.Request) Role {
	c, err := r.Cookie(SessionCookie)
	if err != nil {
		return RoleNone
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found, ok := s.open[sha256.Sum256([]byte(c.Value))]
	if !ok || !time.Now().Before(found.ends) {
		return RoleNone
	}
	return found.role
}
