package workq_test

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/dialect/dialecttest"
	"millrace/internal/dialect/workq"
	"millrace/internal/dialect/workq/workqtest"
	"millrace/internal/job"
	"millrace/internal/testkit"
)

// largePage adds jobs of some hundred kilobytes, more than the connection holds, and asks for
// a page of them without reading it.
func largePage(t *testing.T, l *testkit.Listener) (conn *testkit.Conn, jobs []workqtest.Job) {
	t.Helper()
	other := workqtest.New(dial(t, l))
	jobs = make([]workqtest.Job, 40)
	for i := range jobs {
		jobs[i] = newJob("q", strings.Repeat(string(rune('A'+i)), 300_000))
		must(t, other.Add(jobs[i]))
	}
	conn = dial(t, l)
	_, err := io.WriteString(conn, "inspect jobs q 0 100\r\n")
	must(t, err)
	synctest.Wait()
	return conn, jobs
}

// readOn reads until nothing comes any more.
func readOn(c *testkit.Conn) (text string, ended bool) {
	var all strings.Builder
	for {
		data, ended := c.TryRead()
		if len(data) == 0 {
			return all.String(), ended
		}
		all.Write(data)
		synctest.Wait()
	}
}

// TestPageIsOneMoment deletes jobs while a page with them is under way: it is what it
// was when it was asked for.
func TestPageIsOneMoment(t *testing.T) {
	t.Parallel()
	inBubble(t, workq.Options{}, func(t *testing.T, _ *dialecttest.Server, l *testkit.Listener) {
		t.Helper()
		conn, jobs := largePage(t, l)
		other := workqtest.New(dial(t, l))
		for _, j := range jobs {
			must(t, other.Delete(j.ID))
		}
		got, ended := readOn(conn)
		if !strings.HasPrefix(got, "+OK 40\r\n") || ended {
			t.Errorf("the page begins with %.60q; ended: %v", got, ended)
		}
		at := 0
		for i, j := range jobs {
			k := strings.Index(got[at:], j.ID+" 12\r\n")
			if k < 0 || !strings.Contains(got[at+k:], "\r\npayload-size 300000\r\npayload "+string(j.Payload)+"\r\n") {
				t.Fatalf("job %d is not in its place, whole", i)
			}
			at += k
		}
		if _, err := io.WriteString(conn, "inspect jobs q 0 100\r\n"); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if got, _ := readOn(conn); got != "+OK 0\r\n" {
			t.Errorf("afterwards: %.60q", got)
		}
	})
}

// TestPageReadTooSlowly ends the connection of a client that takes minutes over a page,
// for which the space of deleted jobs is kept.
func TestPageReadTooSlowly(t *testing.T) {
	t.Parallel()
	inBubble(t, workq.Options{Options: dialect.Options{WriteTimeout: time.Hour}},
		func(t *testing.T, _ *dialecttest.Server, l *testkit.Listener) {
			t.Helper()
			conn, jobs := largePage(t, l)
			testkit.Advance(t, 6*time.Minute)
			got, ended := readOn(conn)
			if !strings.HasPrefix(got, "+OK 40\r\n") || strings.Contains(got, jobs[39].ID) || !ended {
				t.Errorf("%d bytes that begin with %.60q; ended: %v", len(got), got, ended)
			}
		})
}

// TestRemovedQueue asks for a queue that a client of another protocol has removed while a job of it was leased: it is
// not shown, and comes back with the next job.
func TestRemovedQueue(t *testing.T) {
	t.Parallel()
	inBubble(t, workq.Options{}, func(t *testing.T, s *dialecttest.Server, l *testkit.Listener) {
		t.Helper()
		conn := dial(t, l)
		expect := func(line, want string) {
			t.Helper()
			_, err := io.WriteString(conn, line+"\r\n")
			must(t, err)
			synctest.Wait()
			if got, _ := readOn(conn); !strings.HasPrefix(got, want+"\r\n") {
				t.Errorf("%s: %q, want %s", line, got, want)
			}
		}
		expect("add "+workqtest.NewID()+" q 60000 60000 1\r\nx", "+OK")
		expect("lease q 0", "+OK 1")
		res := s.Engine.NewCaller().Do(t.Context(), &job.Remove{Namespace: "default", Queue: "q", ReadyOnly: true})
		if res[0].Err != nil {
			t.Fatal(res[0].Err)
		}
		expect("inspect queues 0 10", "+OK 0")
		expect("inspect queue q", "-NOT-FOUND")
		expect("inspect jobs q 0 10", "-NOT-FOUND")
		expect("add "+workqtest.NewID()+" q 60000 60000 1\r\nx", "+OK")
		expect("inspect queue q", "+OK 1")
	})
}
