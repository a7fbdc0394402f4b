package server

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"millrace/internal/config"
	"millrace/internal/job"
)

// followed is a server that follows two kinds of files.
type followed struct {
	t       *testing.T
	dir     string
	flags   map[string]string
	reloads chan os.Signal
}

// newFollowed has one listener.
func newFollowed(t *testing.T, addr string) *followed {
	t.Helper()
	f := &followed{t: t, dir: t.TempDir(), flags: map[string]string{}, reloads: make(chan os.Signal)}
	for _, k := range Settings().Keys() {
		if k.Kind == config.KindAddresses {
			f.flags[k.Name] = config.AddressOff
		}
	}
	f.flags["data.dir"], f.flags["faktory.config_dir"], f.flags[addr] = filepath.Join(f.dir,
		"data"), f.dir, "127.0.0.1:0"
	if err := os.Mkdir(filepath.Join(f.dir, "conf.d"), 0o700); err != nil {
		t.Fatal(err)
	}
	return f
}

// write writes our own file, and one as Faktory has it.
func (f *followed) write(own, original string) {
	f.t.Helper()
	for path, text := range map[string]string{"own.toml": own, filepath.Join("conf.d", "cron.toml"): original} {
		if err := os.WriteFile(filepath.Join(f.dir, path), []byte(text), 0o600); err != nil {
			f.t.Fatal(err)
		}
	}
}

func (f *followed) load() (*config.Config, error) {
	return Settings().Load(config.Input{File: filepath.Join(f.dir, "own.toml"), Flags: f.flags})
}

const ownEntry = `
[[cron]]
name = "own"
schedule = "%s"
time_zone = "Asia/Kathmandu"
queue = "q"
overlap = "skip"
[cron.job]
type = "Own"
body = { a = 1 }
retry = 2
`

const originalEntry = `
[[cron]]
  schedule = "%s"
  [cron.job]
    type = "Report"
    queue = "critical"
    retry = 3
    args = [1, "two"]
    reserve_for = 120
    [cron.job.custom]
      foo = "bar"

[[cron]]
  schedule = "@daily"
  [cron.job]
    type = "Report"
`

// Files are followed from the start on and when they are read again. A wrong entry is told with file and line, and
// changes nothing; history stays.
func TestFollowFiles(t *testing.T) {
	t.Parallel()
	f := newFollowed(t, "faktory.addr")
	f.write(fmt.Sprintf(ownEntry, "@hourly"), fmt.Sprintf(originalEntry, "@hourly"))
	first, err := f.load()
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, first, Options{Reloads: f.reloads, Reload: f.load})
	list := func() string {
		infos, err := r.server.engine.Schedules("")
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for i := range infos {
			s := &infos[i]
			out = append(out, fmt.Sprintf("%s %s %s %s %s %s %d/%d", s.Name, s.When, s.Job.Queue, s.Job.Type,
				s.Job.Body, s.Job.Key, s.Job.Policy.MaxFails, s.Pushed))
		}
		return strings.Join(out, "\n")
	}
	want := "Report @hourly critical Report [1,\"two\"]  4/0\nReport-2 @daily default Report []  26/0\nown @hourly q " +
		"Own {\"a\":1}  3/0"
	if got := list(); got != want {
		t.Fatalf("%s\nwant\n%s", got, want)
	}
	r.server.engine.NewCaller().Do(t.Context(), &job.RunSchedule{Namespace: "default", Name: "own"})
	reload := func(own, original, says string) {
		t.Helper()
		before := strings.Count(r.log.String(), says)
		f.write(own, original)
		f.reloads <- syscall.SIGHUP
		until(t, says, func() bool { return strings.Count(r.log.String(), says) > before })
	}
	// Nothing of what is wrong is taken over, nor is what is right beside it.
	for _, wrong := range []struct{ own, original, says string }{
		{fmt.Sprintf(ownEntry, "@weekly"), fmt.Sprintf(originalEntry, "99 * * * *"), "cron.toml:2: cron: schedule"},
		{"\n\n" + fmt.Sprintf(ownEntry, "never"), fmt.Sprintf(originalEntry, "@weekly"), "own.toml:4: cron: schedule"},
		{fmt.Sprintf(ownEntry, "@weekly") + fmt.Sprintf(ownEntry, "@daily"), "", "own.toml:13: schedule"},
		{fmt.Sprintf(ownEntry, "@weekly") + "colour = 1\n", "", "own.toml:2: cron: unknown field"},
		{"[[cron]]\nschedule = \"@daily\"\n", "", "own.toml:1: cron: name is missing"},
		{"", "[[cron]]\nschedule = \"@daily\"\n", "cron.toml:1: cron: [cron.job] is missing"},
		{
			"", "[[cron]]\nschedule = \"@daily\"\n[cron.job]\ntype = \"T\"\nat = \"2030-01-01T00:00:00Z\"\n",
			"cron.toml:1: cron: at:",
		},
	} {
		reload(wrong.own, wrong.original, wrong.says)
	}
	if got := list(); got != strings.Replace(want, "3/0", "3/1", 1) {
		t.Fatalf("after wrong entries: %s", got)
	}
	reload(fmt.Sprintf(ownEntry, "@weekly"), "", "configuration reloaded")
	if got := list(); got != `own @weekly q Own {"a":1}  3/1` {
		t.Fatalf("after a change: %s", got)
	}
}

// A server does not start with a wrong entry.
func TestFollowRefusesToStart(t *testing.T) {
	t.Parallel()
	f := newFollowed(t, "masenko.addr")
	f.write(fmt.Sprintf(ownEntry, "0 0 30 2 *"), "")
	cfg, err := f.load()
	if err != nil {
		t.Fatal(err)
	}
	if err := Run(t.Context(), cfg, Options{}); err == nil ||
		!strings.Contains(err.Error(), "own.toml:2: cron: schedule") {
		t.Fatal(err)
	}
}
