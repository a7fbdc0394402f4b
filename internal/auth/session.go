package auth

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"sync"
	"time"
)

const (
	// SessionFor is how long somebody stays logged in.
	SessionFor = 12 * time.Hour
	// endedMax bounds how many sessions are remembered that were ended before their time.
	endedMax = 1000
	// endedGrace is for how long they are remembered beyond it: the clock of the next leader may be behind.
	endedGrace = time.Hour
)

// A cookie is the session and its signature. A session begins with the time of its end, so that sessions are in the
// order in which they end.
const (
	endBytes     = 8
	roleBytes    = 1
	nonceBytes   = 16
	sessionBytes = endBytes + roleBytes + nonceBytes
	cookieBytes  = sessionBytes + sha256.Size
)

// SessionsOptions are what Sessions need. Who has the key cannot make a cookie without the secrets of a Login.
type SessionsOptions struct {
	Key []byte
	// Ended are the sessions that were ended before their time, in byte order, and Keep remembers one of them and
	// forgets others.
	Ended []string
	Keep  func(ctx context.Context, ended string, forget []string) error
}

// Sessions are those who have logged in with a browser. Their cookies say who may do what and until when, and are
// signed: nothing is kept of a session, so that whoever has the key knows it, after a restart and on another node of a
// cluster. Only those that were ended before their time are remembered, up to a number. Beyond it those that end first
// are over.
type Sessions struct {
	opts SessionsOptions

	mu    sync.Mutex // guards what follows
	ended []string   // in byte order
}

// NewSessions returns Sessions.
func NewSessions(o SessionsOptions) *Sessions {
	return &Sessions{opts: o, ended: slices.Clone(o.Ended)}
}

// Begin returns the cookie of somebody who has just proved a role with the secrets that p is the proof of.
func (s *Sessions) Begin(role Role, p Proof, now time.Time) string {
	cookie := make([]byte, 0, cookieBytes)
	cookie = binary.BigEndian.AppendUint64(cookie, uint64(now.Add(SessionFor).Unix())) //nolint:gosec // after 1970
	cookie = append(cookie, byte(role))
	cookie = append(cookie, make([]byte, nonceBytes)...)
	_, _ = rand.Read(cookie[endBytes+roleBytes:]) // never fails
	return base64.RawURLEncoding.EncodeToString(append(cookie, s.sign(cookie, p)...))
}

// sign returns the signature of a session. It is another one for every set of secrets, so that it ends with them.
func (s *Sessions) sign(session []byte, p Proof) []byte {
	h := hmac.New(sha256.New, s.opts.Key)
	_, _ = h.Write(p[:]) // it cannot fail
	_, _ = h.Write(session)
	return h.Sum(nil)
}

// Role returns the role of who has a cookie; none if it is not one of ours, if it is over, or if the secrets have
// changed since.
func (s *Sessions) Role(cookie string, p Proof, now time.Time) Role {
	role, _ := s.read(cookie, p, now)
	return role
}

// End ends a session before its time. With an error it is over as long as this process runs.
func (s *Sessions) End(ctx context.Context, cookie string, p Proof, now time.Time) error {
	role, name := s.read(cookie, p, now)
	if role == RoleNone {
		return nil
	}
	return s.opts.Keep(ctx, name, s.end(name, now))
}

// read checks a cookie and returns the name of its session.
func (s *Sessions) read(cookie string, p Proof, now time.Time) (Role, string) {
	b, err := base64.RawURLEncoding.DecodeString(cookie)
	if err != nil || len(b) != cookieBytes {
		return RoleNone, ""
	}
	session, signature := b[:sessionBytes], b[sessionBytes:]
	if !hmac.Equal(signature, s.sign(session, p)) || now.Unix() >= endOf(session) {
		return RoleNone, ""
	}
	name := hex.EncodeToString(session)
	if s.isEnded(name) {
		return RoleNone, ""
	}
	return Role(session[endBytes]), name
}

func endOf(session []byte) int64 { return int64(binary.BigEndian.Uint64(session)) } //nolint:gosec // as it was made

// isEnded reports whether a session was ended before its time. When as many are remembered as may be, those that end
// before all of them are over, too: one of them may be forgotten.
func (s *Sessions) isEnded(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, found := slices.BinarySearch(s.ended, name)
	return found || at == 0 && len(s.ended) >= endedMax
}

// end notes that a session is over, and returns those that need not be remembered any more.
func (s *Sessions) end(name string, now time.Time) (forget []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, found := slices.BinarySearch(s.ended, name); !found {
		s.ended = slices.Insert(s.ended, at, name)
	}
	past := hex.EncodeToString(binary.BigEndian.AppendUint64(nil, uint64(now.Add(-endedGrace).Unix()))) //nolint:gosec // after 1970
	n := max(len(s.ended)-endedMax, 0)
	for n < len(s.ended) && s.ended[n] < past {
		n++
	}
	forget = slices.Clone(s.ended[:n])
	s.ended = slices.Delete(s.ended, 0, n)
	return forget
}
