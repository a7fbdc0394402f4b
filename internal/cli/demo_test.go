package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"millrace/internal/config"
	"millrace/internal/testkit"
)

// lines are what a command prints, one after the other.
type lines struct{ texts chan string }

func (l *lines) Write(p []byte) (int, error) {
	l.texts <- string(p)
	return len(p), nil
}

// The demo lives through its past, shows it, and goes on until it is stopped.
func TestDemo(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "demo")
	signals, status := make(chan os.Signal, 1), make(chan int, 1)
	out, log := &lines{make(chan string, 10)}, new(testkit.Buffer)
	go func() {
		status <- Main([]string{"demo", "--data-dir", dir, "--web-addr=127.0.0.1:0", "--past=4m"},
			Process{Stdout: out, Stderr: log, Signals: signals})
	}()
	s := &asked{t: t}
	for staged := false; !staged; {
		select {
		case text := <-out.texts:
			if url := regexp.MustCompile(`web +(https?://[0-9.:]+)`).FindStringSubmatch(text); url != nil {
				s.environ = append(os.Environ(), config.ClientURLVariable+"="+url[1])
			}
			staged = strings.HasPrefix(text, "staged")
		case code := <-status:
			t.Fatalf("status %d: %s", code, log)
		}
	}
	s.says("queue ls", "mail", "invoices", "images", "reports", "webhooks")
	s.says("types --period hour", "SendReceipt", "ChargeCard", "BuildReport")
	s.says("failures", "smtp.example.com", "SendReceipt")
	s.says("batch ls", "Newsletter of November")
	s.says("cron ls", "stock", "digest", "closing")
	s.says("worker ls", "shop-1", "app-02")
	s.says("queue get webhooks", "concurrency 4")
	s.says("activity", "set limits of queue webhooks", "millrace-demo")
	s.says("job ls --state dead --limit 1", "SendReceipt")
	if got := s.run("demo --data-dir " + dir); got.status != exitUsage ||
		!strings.Contains(got.stderr, "is not empty") {
		t.Errorf("on old data: %+v", got)
	}
	signals <- syscall.SIGTERM
	if code := <-status; code != 0 {
		t.Errorf("it ended with %d: %s", code, log)
	}
}
