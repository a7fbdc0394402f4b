package operator

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"

	"millrace/internal/api"
	"millrace/internal/auth"
	"millrace/internal/job"
)

const (
	// keySpace is where the key is kept from which all others are made, under keyName.
	keySpace = "admin.key"
	keyName  = "1"
	// endedSpace is where sessions are kept that were ended before their time, under their names.
	endedSpace = "admin.logout"
)

// initKeys makes what logins and ids of tokens need of a key in the store. So they are good after a restart, and under
// another leader.
func (s *Service) initKeys() error {
	key, err := s.key()
	if err != nil {
		return fmt.Errorf("key of logins: %w", err)
	}
	values, err := s.engine.Values(endedSpace, "", 0)
	if err != nil {
		return fmt.Errorf("read logins that have ended: %w", err)
	}
	ended := make([]string, len(values))
	for i := range values {
		ended[i] = values[i].Name
	}
	s.tokenKey = keyFor(key, "tokens")
	s.logins = auth.NewSessions(auth.SessionsOptions{Key: keyFor(key, "sessions"), Ended: ended, Keep: s.keepEnded})
	return nil
}

// key returns the key, which is made once.
func (s *Service) key() ([]byte, error) {
	key, ok, err := s.engine.Value(keySpace, keyName)
	if ok || err != nil {
		return key, err
	}
	key = make([]byte, sha256.Size)
	_, _ = rand.Read(key) // never fails
	return key, s.keep(context.Background(), &job.SetValue{Space: keySpace, Name: keyName, Value: key})
}

// keyFor makes a key that is good for one thing only.
func keyFor(key []byte, what string) []byte {
	h := hmac.New(sha256.New, key)
	_, _ = h.Write([]byte(what)) // it cannot fail
	return h.Sum(nil)
}

// keepEnded keeps that a session has ended, and forgets others.
func (s *Service) keepEnded(ctx context.Context, ended string, forget []string) error {
	cmds := make([]job.Command, 0, 1+len(forget))
	cmds = append(cmds, &job.SetValue{Space: endedSpace, Name: ended})
	for _, name := range forget {
		cmds = append(cmds, &job.DropValue{Space: endedSpace, Name: name})
	}
	return s.keep(context.WithoutCancel(ctx), cmds...) // a browser that goes away has logged out, too
}

// keep runs commands that keep something of logins. On a full disk it is in memory only, so that an operator can come
// in and make room.
func (s *Service) keep(ctx context.Context, cmds ...job.Command) error {
	for _, r := range s.engine.NewCallerAt(s.opts.Door).Do(ctx, cmds...) {
		switch {
		case r.Err == job.ErrNoSpace:
			s.log.Warn("the disk is nearly full: logins, logouts and ids of tokens of now are good " +
				"until the server stops")
		case r.Err != nil:
			return api.Refusal(r.Err)
		}
	}
	return nil
}

// Logins are the sessions of those who have logged in with a browser.
func (s *Service) Logins() *auth.Sessions { return s.logins }
