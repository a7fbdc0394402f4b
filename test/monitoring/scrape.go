package monitoring

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"millrace/test/harness"
)

// Dir is where the dashboard and the rules are, seen from a package below test/monitoring.
func Dir(up ...string) string {
	return filepath.Join(append(up, "..", "..", "packaging", "monitoring")...)
}

// Scrape starts a server, has a job pushed, failed, fetched again and acked, and returns its metrics.
func Scrape(ctx context.Context) (text string, err error) {
	dir, err := os.MkdirTemp("", "millrace-monitoring-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // nothing to be done about it
	bin, err := harness.Build(ctx, dir)
	if err != nil {
		return "", err
	}
	ports, err := harness.FreePorts(ctx, bin)
	if err != nil {
		return "", err
	}
	s, err := harness.Start(ctx, harness.Options{
		Bin: bin, Args: []string{"serve", "--data-dir", filepath.Join(dir, "data")}, Env: ports, Also: []string{"web"},
	})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, s.Stop(30*time.Second)) }()
	if err := work(s.Addr); err != nil {
		return "", err
	}
	return get(ctx, "http://"+s.Addrs["web"]+"/metrics")
}

// work makes the server do a little of everything that has metrics of its own.
func work(addr string) error {
	c, err := harness.Dial(addr)
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // it has said all
	for _, settle := range []func(uint64) error{c.Nack, c.Ack} {
		if _, err := c.Push("mail", "hello"); err != nil {
			return err
		}
		j, ok, err := c.Fetch("mail", time.Second)
		if err != nil || !ok {
			return errors.Join(err, errors.New("the job did not come"))
		}
		if err := settle(j.ID); err != nil {
			return err
		}
	}
	return nil
}

func get(ctx context.Context, url string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer res.Body.Close() //nolint:errcheck // it has been read
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", url, res.Status, strings.TrimSpace(string(body)))
	}
	return string(body), err
}
