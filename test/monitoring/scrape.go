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

// yard is where servers run.
type yard struct {
	dir, bin string
	ports    []string // what has them listen on free ones
	servers  []*harness.Server
}

// open makes a yard, runs f there and ends what runs in it.
func open(ctx context.Context, f func(*yard) (string, error)) (text string, err error) {
	var y yard
	if y.dir, err = os.MkdirTemp("", "millrace-monitoring-"); err != nil {
		return "", err
	}
	defer os.RemoveAll(y.dir) //nolint:errcheck // nothing to be done about it
	if y.bin, err = harness.Build(ctx, y.dir); err != nil {
		return "", err
	}
	if y.ports, err = harness.FreePorts(ctx, y.bin); err != nil {
		return "", err
	}
	defer func() {
		for _, s := range y.servers {
			err = errors.Join(err, s.Stop(harness.StopPatience))
		}
	}()
	return f(&y)
}

func (y *yard) start(ctx context.Context, name string, args ...string) (*harness.Server, error) {
	s, err := harness.Start(ctx, harness.Options{
		Bin: y.bin, Args: append([]string{"serve", "--data-dir", filepath.Join(y.dir, name)}, args...), Env: y.ports,
		Also: []string{"web"},
	})
	if err == nil {
		y.servers = append(y.servers, s)
	}
	return s, err
}

// Scrape starts a server, has a job pushed, failed, fetched again and acked, and returns its metrics.
func Scrape(ctx context.Context) (string, error) {
	return open(ctx, func(y *yard) (string, error) {
		// Only then hooks have figures.
		y.ports = append(y.ports, "MILLRACE_HOOKS_SECRET=whsec_"+strings.Repeat("YWFh", 8))
		s, err := y.start(ctx, "data")
		if err != nil {
			return "", err
		}
		return y.scrape(ctx, s)
	})
}

// ScrapeCluster does the same with a cluster, and returns the metrics of a node that sees the others.
func ScrapeCluster(ctx context.Context) (string, error) {
	names, peers := []string{"a", "b", "c"}, ""
	for _, name := range names {
		addr, err := harness.FreeAddr(ctx)
		if err != nil {
			return "", err
		}
		peers += "," + name + "=" + addr
	}
	return open(ctx, func(y *yard) (string, error) {
		for _, name := range names {
			if _, err := y.start(ctx, name, "--cluster-node", name, "--cluster-peers", peers[1:]); err != nil {
				return "", err
			}
		}
		return y.scrape(ctx, y.servers[0])
	})
}

// scrape has a server do some work, and returns its metrics. A node has its connection served once there is a leader.
func (y *yard) scrape(ctx context.Context, s *harness.Server) (string, error) {
	if err := work(s.Addr); err != nil {
		return "", err
	}
	if err := addCron(ctx, s.Addrs["web"]); err != nil {
		return "", err
	}
	return get(ctx, "http://"+s.Addrs["web"]+"/metrics")
}

// addCron makes a cron entry and has it push a job.
func addCron(ctx context.Context, addr string) error {
	entry := "http://" + addr + "/api/v1/namespaces/default/cron/report"
	for _, ask := range []struct{ method, url, body string }{
		{http.MethodPut, entry, `{"schedule":"@daily","queue":"mail"}`}, {http.MethodPost, entry + "/run", ""},
	} {
		r, err := http.NewRequestWithContext(ctx, ask.method, ask.url, strings.NewReader(ask.body))
		if err != nil {
			return err
		}
		r.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		_ = res.Body.Close() // the status is all that counts
		if res.StatusCode != http.StatusOK {
			return fmt.Errorf("%s %s: %s", ask.method, ask.url, res.Status)
		}
	}
	return nil
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
