package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
)

// profile keeps a processor profile of a server of ours under a load that is about to begin, if profiles are asked for.
// The channel tells when that is done.
func (b *wire) profile(ctx context.Context, t *target, l load) <-chan error {
	done := make(chan error, 1)
	if b.profiles == "" || t.web == "" {
		done <- nil
		return done
	}
	go func() {
		url := fmt.Sprintf("%s/debug/pprof/profile?seconds=%d", t.web, max(1, int(l.duration.Seconds())))
		name := fmt.Sprintf("%s-%s-%s-%d-%d.prof", t.protocol.Name, t.name, l.scenario, l.conns, t.runs)
		done <- download(ctx, url, filepath.Join(b.profiles, name))
	}()
	return done
}

// download writes what url answers to a file.
func download(ctx context.Context, url, path string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // it has been read
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	f, err := os.Create(path) //nolint:gosec // named by the caller
	if err != nil {
		return err
	}
	if _, err := io.Copy(f, resp.Body); err != nil {
		_ = f.Close() // the error is in the copy
		return err
	}
	return f.Close()
}
