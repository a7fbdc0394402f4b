package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/internal/config"
)

// webKey is the key of the listener that tells whether the server is ready.
const webKey = "web.addr"

func newHealthCommand(p Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Ask a running server whether it is ready",
		Long: `Ask a running server whether it is ready to serve: GET /readyz on its web.addr, which is found
in the configuration that the server has, or on the address that --api names.

Exit status: 0 if the server is ready, 1 if it is not or does not answer in time, 2 if the
command line or the configuration is wrong. A container's health check can use it as it is.`,
		Example: `  millrace health
  millrace health --config /etc/millrace/millrace.toml
  millrace health --api http://127.0.0.1:7420 --verbose`,
		Args: noArgs,
	}
	flags := cmd.Flags()
	file := flags.StringP("config", "c", "", "TOML file of the server ("+config.FileVariable+")")
	must(cmd.MarkFlagFilename("config", "toml"))
	address := flags.String("api", "", "address of the server, such as http://127.0.0.1:7420 "+
		"("+config.ClientURLVariable+")")
	flags.StringVar(address, "url", "", "the same, its earlier name")
	flags.Lookup("url").Hidden = true
	timeout := flags.Duration("timeout", 5*time.Second, "how long to wait for the answer")
	verbose := flags.Bool("verbose", false, "print each thing that the server looks at")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *timeout <= 0 {
			return fmt.Errorf("--timeout: %s is no time to wait: choose for example 5s", *timeout)
		}
		base := orElse(*address, p.env(config.ClientURLVariable))
		if base == "" {
			cfg, err := p.serverConfig(*file)
			if err != nil {
				return err
			}
			if base, err = webURL(cfg.Listeners()); err != nil {
				return err
			}
		}
		target, err := readyURL(base, *verbose)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), *timeout)
		defer cancel()
		checks, err := askReady(ctx, target)
		if checks != "" {
			if _, err := fmt.Fprintln(cmd.OutOrStdout(), checks); err != nil {
				return fail(err)
			}
		}
		if err == nil {
			_, err = fmt.Fprintln(cmd.OutOrStdout(), "ready")
		}
		return fail(err)
	}
	return cmd
}

// webURL returns where a server with these listeners can be asked from its own machine.
func webURL(listeners []config.Listener) (string, error) {
	for _, l := range listeners {
		if l.Key.Name != webKey {
			continue
		}
		host, port, err := net.SplitHostPort(l.Addr)
		if err != nil || port == "0" {
			return "", fmt.Errorf("%s is %s, whose port is not known beforehand: name the address with --api", webKey,
				l.Addr)
		}
		if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
			host = "127.0.0.1"
			if err == nil && ip.Is6() {
				host = "::1"
			}
		}
		scheme := "http"
		if l.TLS.Enabled() {
			scheme = "https"
		}
		return scheme + "://" + net.JoinHostPort(host, port), nil
	}
	return "", fmt.Errorf("%s is off, so that the server cannot be asked: set it, or name another address with --api",
		webKey)
}

// readyURL returns what to get.
func readyURL(base string, verbose bool) (string, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("--api: %q is no address: write for example http://127.0.0.1:7420", base)
	}
	u = u.JoinPath("readyz")
	if verbose {
		u.RawQuery = "verbose"
	}
	return u.String(), nil
}

// answerSizeMax bounds what is read and printed of an answer.
const answerSizeMax = 64 << 10

// askReady returns the checks that the server tells of, one in a line, and an error if it is not ready.
func askReady(ctx context.Context, target string) (string, error) {
	client := http.Client{
		// No proxy: it is this machine's server. No keep-alive: it is one question.
		Transport: &http.Transport{
			DisableKeepAlives: true,
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // asked by address, and nothing is told
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return "", fmt.Errorf("no answer from %s in time: the server is overloaded or hangs; look at its log",
				target)
		}
		return "", fmt.Errorf("%w: is the server running, and does it listen there?", err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, answerSizeMax))
	checks, verdict := "", strings.TrimSpace(string(body))
	if end := strings.LastIndexByte(verdict, '\n'); end >= 0 {
		checks, verdict = verdict[:end], verdict[end+1:]
	}
	switch {
	case resp.StatusCode != http.StatusOK:
		why := strings.TrimPrefix(strings.TrimPrefix(verdict, "not ready"), ": ")
		return checks, fmt.Errorf("not ready: %s", strings.TrimSuffix(resp.Status+": "+why, ": "))
	case err != nil:
		return "", fmt.Errorf("read the answer: %w", err)
	}
	return checks, nil
}
