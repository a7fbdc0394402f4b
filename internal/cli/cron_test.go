package cli

import (
	"strings"
	"testing"
)

func TestQueueHook(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.says("queue hook mails", "mails has no hook.")
	s.says("queue hook mails --push graves", "When a job of mails dies: push to graves.")
	s.says("queue hook mails", "push to graves")
	s.says("queue hook mails --json", `"push":"graves"`, `"origin":"api"`)
	s.ok("push mails")
	s.says("queue get mails", "when a job dies", "push to graves")
	s.ok("job kill 1 --yes")
	s.says("job ls --queue graves --json", `"type":"millrace.died"`)
	s.says("queue hook mails off", "mails has no hook.")
	s.says("queue hook mails off", "mails has no hook.")
	s.fails(exitFailure, "set hooks.secret", "queue hook mails --url https://example.org/")
	for _, wrong := range []string{
		"queue hook", "queue hook mails on", "queue hook mails off --push x",
		"queue hook mails --push x --url y",
	} {
		s.fails(exitUsage, "", wrong)
	}
}

func TestCronCommands(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	if got := s.run("cron ls"); got.status != 0 || !strings.Contains(got.stderr, "no cron entries") {
		t.Errorf("%+v", got)
	}
	s.says("cron add report --schedule @daily --tz Asia/Kathmandu --queue reports --type Report --missed all "+
		"--overlap skip --retry 2 7", "report runs next in")
	s.says("cron add off --schedule @hourly --queue q --paused", "off is paused")
	s.says("cron ls", "report", "@daily", "Asia/Kathmandu", "reports", "paused", "api")
	s.says("cron ls --json", `"name":"report"`, `"missed":"all"`, `"missed_limit":100`, `"overlap":"skip"`, `"retry":2`)
	s.says("cron next report -n 2 --json", `"next": [`, ":15:00Z")
	if lines := strings.Count(s.ok("cron next report -n 4"), "\n"); lines != 4 {
		t.Errorf("%d lines", lines)
	}
	id := strings.TrimSpace(s.ok("cron run report"))
	s.says("job get "+id, "reports", "Report", "7")
	s.says("cron get report", "report in namespace default", "manual job "+id+" unfinished", "1 fired")
	s.says("cron pause report", "report is paused")
	s.says("cron resume report", "report runs next in")
	s.says("cron rm report off", "report is removed", "off is removed")
	s.fails(exitNotFound, "no such schedule", "cron rm report")
	s.fails(exitNotFound, "no cron entry", "cron get report")
	s.fails(exitUsage, "schedule", "cron add x --queue q")
	s.fails(exitUsage, "expected", "cron add x --queue q --schedule never")
}
