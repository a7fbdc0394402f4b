package server

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"

	"millrace/internal/testkit"
)

// onMessage is a log handler that calls a function for each message.
type onMessage struct {
	slog.Handler
	call func(message string)
}

func (h onMessage) Handle(ctx context.Context, r slog.Record) error {
	h.call(r.Message)
	return h.Handler.Handle(ctx, r)
}

// A start waits for a port that another process gives up a moment later, and says nothing about it.
func TestPortIsFreedLater(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	log, banner := new(testkit.Buffer), make(lines, 1)
	handler := onMessage{slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}), func(message string) {
		if strings.Contains(message, "address that is in use") {
			_ = l.Close() // it is in use for the first attempts only
		}
	}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- Run(ctx, load(t, map[string]string{"masenko.addr": l.Addr().String()}),
			Options{Logger: slog.New(handler), Out: banner})
	}()
	select {
	case text := <-banner:
		if !strings.Contains(text, l.Addr().String()) {
			t.Errorf("it listens elsewhere:\n%s", text)
		}
	case err := <-done:
		t.Fatalf("the server did not start: %v", err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if text := log.String(); strings.Contains(text, "level=WARN") || strings.Contains(text, "level=ERROR") {
		t.Errorf("the log is alarming:\n%s", text)
	}
}
