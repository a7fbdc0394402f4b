package server

import (
	"log/slog"
	"strings"
	"sync/atomic"

	"millrace/internal/auth"
	"millrace/internal/config"
)

// reloader takes over a part of a configuration that was read again. It returns what does so, or why it cannot be done:
// then nothing changes. Code with settings that can change while the server runs adds one with settings.onReload,
// and marks the keys as live in the table of the configuration.
type reloader func(next *config.Config) (apply func(), err error)

// settings are what the process has of its configuration.
type settings struct {
	current   atomic.Pointer[config.Config] // what it was started with, or what was taken over last
	reloaders []reloader
}

func (s *settings) onReload(r reloader) { s.reloaders = append(s.reloaders, r) }

// reload reads the configuration again and takes over all of what has changed, or nothing.
func (s *server) reload() {
	if s.opts.Reload == nil {
		s.log.Warn("there is no configuration to read again")
		return
	}
	next, err := s.opts.Reload()
	if err != nil {
		s.log.Error("configuration not reloaded, nothing has changed: it is not valid", slog.Any("error", err))
		return
	}
	changed, restart := s.settings.current.Load().Changes(next)
	if len(restart) > 0 {
		s.log.Error("configuration not reloaded, nothing has changed: some settings need a restart",
			slog.String("restart", strings.Join(restart, ", ")), slog.String("others", strings.Join(changed, ", ")),
			slog.String("advice", "restart the server, or take these changes back and reload again"))
		return
	}
	applies := make([]func(), 0, len(s.settings.reloaders))
	for _, r := range s.settings.reloaders {
		apply, err := r(next)
		if err != nil {
			s.log.Error("configuration not reloaded, nothing has changed", slog.Any("error", err))
			return
		}
		applies = append(applies, apply)
	}
	for _, apply := range applies {
		apply()
	}
	s.settings.current.Store(next)
	s.log.Info("configuration reloaded", slog.String("changed", strings.Join(changed, ", ")))
}

// reloadLevel sets the level of the log.
func (s *server) reloadLevel(next *config.Config) (apply func(), err error) {
	return func() {
		if s.opts.SetLogLevel != nil {
			s.opts.SetLogLevel(next.Log.Level)
		}
	}, nil
}

// loginOptions are the secrets of the operator's side.
func loginOptions(w *config.Web) auth.LoginOptions {
	return auth.LoginOptions{Password: w.Password, ReadPassword: w.ReadPassword, Token: w.Token, ReadToken: w.ReadToken}
}

// reloadLogin replaces the secrets of the operator's side, if they have changed: that logs everybody out.
func (s *server) reloadLogin(login *auth.Login) reloader {
	return func(next *config.Config) (apply func(), err error) {
		return func() {
			if to := loginOptions(&next.Web); to != loginOptions(&s.settings.current.Load().Web) {
				login.Set(to)
			}
		}, nil
	}
}
