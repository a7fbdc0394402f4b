package lmstfy

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bitleak/lmstfy/client"
)

// The usual parameters of a job: it lives for an hour, may be consumed once, and
// whoever consumes it has a minute.
const (
	ttl   = 3600
	tries = 1
	ttr   = 60
)

// check fails the test if a call of the client that answers an *APIError did so.
func check(t *testing.T, err *client.APIError) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// publish publishes a job with the usual parameters.
func publish(t *testing.T, c *client.LmstfyClient, queue, data string) string {
	t.Helper()
	id, err := c.Publish(queue, []byte(data), ttl, tries, 0) //nolint:staticcheck // deprecated, and what most programs call
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// publishWith publishes a job with other parameters.
func publishWith(t *testing.T, c *client.LmstfyClient, job client.JobRequest) string {
	t.Helper()
	id, err := c.PublishJob(&job)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// consume consumes a job that must be there.
func consume(t *testing.T, c *client.LmstfyClient, queue string, ttr, timeout uint32) *client.Job {
	t.Helper()
	job, err := c.Consume(queue, ttr, timeout)
	if err != nil {
		t.Fatal(err)
	}
	if job == nil {
		t.Fatalf("nothing to consume in %s", queue)
	}
	return job
}

// empty checks that a queue has nothing to consume.
func empty(t *testing.T, c *client.LmstfyClient, queue string) {
	t.Helper()
	if job, err := c.Consume(queue, ttr, 0); err != nil || job != nil {
		t.Fatalf("consume of %s: %+v, %v, want nothing", queue, job, err)
	}
}

// size checks how many jobs a queue has ready.
func size(t *testing.T, c *client.LmstfyClient, queue string, want int) {
	t.Helper()
	got, err := c.QueueSize(queue)
	check(t, err)
	if got != want {
		t.Fatalf("size of %s: %d, want %d", queue, got, want)
	}
}

func TestClient(t *testing.T) {
	t.Parallel()
	s := start(t)
	for name, test := range map[string]func(*testing.T, *client.LmstfyClient){
		"publish and consume": testPublish,
		"delay":               testDelay,
		"long poll":           testLongPoll,
		"batch":               testBatch,
		"republish":           testRepublish,
		"several queues":      testQueues,
		"peek":                testPeek,
		"attributes":          testAttributes,
		"time to run":         testTTR,
		"dead letter":         testDeadLetter,
		"many consumers":      testMany,
		"refusals":            testRefusals,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, s.client(t))
		})
	}
	t.Run("tokens", func(t *testing.T) {
		t.Parallel()
		testTokens(t, s)
	})
}

func testPublish(t *testing.T, c *client.LmstfyClient) {
	const queue = "publish"
	size(t, c, queue, 0)
	empty(t, c, queue)
	binary := []byte{0, 1, 0xff, '"', '\n'}
	first := publishWith(t, c, client.JobRequest{Queue: queue, Data: binary, TTL: ttl, Tries: 3})
	if len(first) != 26 {
		t.Fatalf("the id %q has not 26 characters", first)
	}
	second := publishWith(t, c, client.JobRequest{Queue: queue, Tries: 1})
	size(t, c, queue, 2)

	job := consume(t, c, queue, ttr, 0)
	if job.ID != first || job.Namespace != namespace || job.Queue != queue || !bytes.Equal(job.Data, binary) ||
		job.RemainTries != 2 || job.TTL < ttl-30 || job.TTL > ttl || job.ElapsedMS < 0 || job.ElapsedMS > 30_000 {
		t.Errorf("the first job: %+v", job)
	}
	job = consume(t, c, queue, ttr, 0)
	if job.ID != second || len(job.Data) != 0 || job.TTL != 0 || job.RemainTries != 0 {
		t.Errorf("the second job, which is empty and lives for ever: %+v", job)
	}
	size(t, c, queue, 0)
	check(t, c.Ack(queue, first))
	check(t, c.Ack(queue, second))
	check(t, c.Ack(queue, second)) // any id will do
	empty(t, c, queue)
	if job, err := c.PeekJob(queue, first); err != nil || job != nil {
		t.Errorf("an acknowledged job: %+v, %v", job, err)
	}
}

func testDelay(t *testing.T, c *client.LmstfyClient) {
	const queue = "delay"
	start := time.Now()
	id := publishWith(t, c, client.JobRequest{Queue: queue, Data: []byte("later"), TTL: ttl, Tries: tries, Delay: 1})
	if job := consume(t, c, queue, ttr, 10); job.ID != id || time.Since(start) < time.Second || job.ElapsedMS < 1000 {
		t.Errorf("consumed after %v: %+v", time.Since(start), job)
	}
}

func testLongPoll(t *testing.T, c *client.LmstfyClient) {
	const queue = "poll"
	start := time.Now()
	if job, err := c.Consume(queue, ttr, 1); err != nil || job != nil || time.Since(start) < time.Second {
		t.Fatalf("nothing to wait for: %+v, %v after %v", job, err, time.Since(start))
	}
	got := make(chan *client.Job, 1)
	go func() {
		job, err := c.Consume(queue, ttr, 30)
		if err != nil {
			t.Error(err)
		}
		got <- job
	}()
	id := publish(t, c, queue, "wake up")
	if job := <-got; job == nil || job.ID != id {
		t.Errorf("a waiting consumer: %+v, want %s", job, id)
	}
}

func testBatch(t *testing.T, c *client.LmstfyClient) {
	const queue = "batch"
	type order struct {
		N int `json:"n"`
	}
	ids, err := c.BatchPublish(queue, []any{order{1}, "two", 3, nil}, ttl, tries, 0)
	if err != nil || len(ids) != 4 {
		t.Fatalf("batch publish: %q, %v", ids, err)
	}
	size(t, c, queue, 4)
	jobs, err := c.BatchConsume([]string{queue}, 3, ttr, 0)
	if err != nil || len(jobs) != 3 {
		t.Fatalf("batch consume: %+v, %v, want 3 jobs", jobs, err)
	}
	for i, want := range []string{`{"n":1}`, `"two"`, `3`} {
		if jobs[i].ID != ids[i] || string(jobs[i].Data) != want || jobs[i].Queue != queue {
			t.Errorf("job %d: %+v, want %s with %s", i, jobs[i], ids[i], want)
		}
		check(t, c.Ack(queue, jobs[i].ID))
	}
	// One job and a count above one is an array all the same.
	if jobs, err = c.BatchConsume([]string{queue}, 100, ttr, 5); err != nil || len(jobs) != 1 ||
		string(jobs[0].Data) != "null" {
		t.Errorf("the last one: %+v, %v", jobs, err)
	}
	if jobs, err = c.BatchConsume([]string{queue}, 2, ttr, 0); err != nil || len(jobs) != 0 {
		t.Errorf("an empty queue: %+v, %v", jobs, err)
	}
	// A count of one is an object.
	id := publish(t, c, queue, "single")
	if jobs, err = c.BatchConsume([]string{queue}, 1, ttr, 0); err != nil || len(jobs) != 1 || jobs[0].ID != id {
		t.Errorf("a batch of one: %+v, %v", jobs, err)
	}
}

func testRepublish(t *testing.T, c *client.LmstfyClient) {
	const queue = "republish"
	id := publish(t, c, queue, "first")
	job := consume(t, c, queue, ttr, 0)
	job.Data = []byte("again")
	again, err := c.RePublish(job, ttl, 5, 0) //nolint:staticcheck // what replaces it does not work, see below
	if err != nil || again == id {
		t.Fatalf("republish: %q, %v", again, err)
	}
	if old, err := c.PeekJob(queue, id); err != nil || old != nil {
		t.Errorf("the old job: %+v, %v, want none", old, err)
	}
	if job = consume(t, c, queue, ttr, 0); job.ID != again || string(job.Data) != "again" || job.RemainTries != 4 {
		t.Errorf("the new job: %+v", job)
	}
	empty(t, c, queue)
	// RePublishJob of this version of the client publishes without an id.
	id, err = c.RePublishJob(&client.JobRequest{
		Queue: queue, ID: again, Data: []byte("once more"),
		TTL: ttl, Tries: tries,
	})
	if err != nil {
		t.Fatal(err)
	}
	if job = consume(t, c, queue, ttr, 0); job.ID != id || string(job.Data) != "once more" {
		t.Errorf("the third job: %+v, want %s", job, id)
	}
}

func testQueues(t *testing.T, c *client.LmstfyClient) {
	const high, low = "queues-high", "queues-low"
	lows := []string{publish(t, c, low, "l1"), publish(t, c, low, "l2")}
	highs := []string{publish(t, c, high, "h1"), publish(t, c, high, "h2")}
	job, err := c.ConsumeFromQueues(ttr, 5, high, low)
	if err != nil || job == nil || job.ID != highs[0] || job.Queue != high {
		t.Fatalf("from two queues: %+v, %v, want %s", job, err, highs[0])
	}
	jobs, err := c.BatchConsume([]string{high, low}, 10, ttr, 0)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]string, len(jobs))
	for i, j := range jobs {
		got[i] = j.ID
	}
	if want := []string{highs[1], lows[0], lows[1]}; !slices.Equal(got, want) {
		t.Errorf("a batch from two queues: %q, want %q", got, want)
	}
	if job, err = c.ConsumeFromQueues(ttr, 0, high, low); err != nil || job != nil {
		t.Errorf("two empty queues: %+v, %v", job, err)
	}
}

func testPeek(t *testing.T, c *client.LmstfyClient) {
	const queue = "peek"
	if job, err := c.PeekQueue(queue); err != nil || job != nil {
		t.Fatalf("an empty queue: %+v, %v", job, err)
	}
	if job, err := c.PeekJob(queue, "01BX5ZZKBKACTAV9WEVGEMMVRY"); err != nil || job != nil {
		t.Fatalf("an unknown job: %+v, %v", job, err)
	}
	id := publishWith(t, c, client.JobRequest{Queue: queue, Data: []byte("look"), TTL: ttl, Tries: 3})
	publish(t, c, queue, "behind")
	later := publishWith(t, c, client.JobRequest{
		Queue: queue, Data: []byte("later"), TTL: ttl,
		Tries: tries, Delay: 600,
	})
	for range 2 { // to look changes nothing
		job, err := c.PeekQueue(queue)
		check(t, err)
		if job == nil || job.ID != id || string(job.Data) != "look" || job.RemainTries != 3 || job.Queue != queue {
			t.Errorf("the head: %+v", job)
		}
	}
	size(t, c, queue, 2)
	for id, want := range map[string]string{id: "look", later: "later"} {
		job, err := c.PeekJob(queue, id)
		check(t, err)
		if job == nil || job.ID != id || string(job.Data) != want {
			t.Errorf("job %s: %+v, want %s", id, job, want)
		}
	}
	consume(t, c, queue, ttr, 0)
	job, apiErr := c.PeekJob(queue, id)
	check(t, apiErr)
	if job == nil || job.RemainTries != 2 {
		t.Errorf("a job that is being worked on: %+v, want two tries", job)
	}
}

func testAttributes(t *testing.T, c *client.LmstfyClient) {
	const queue = "attributes"
	id, err := c.PublishJob(&client.JobRequest{
		Queue: queue, Data: []byte("x"), TTL: ttl, Tries: tries,
		Attributes: map[string]string{"Colour": "Blue", "size": "L"},
	})
	if err != nil || len(id) != 27 {
		t.Fatalf("publish: %q, %v, want 27 characters", id, err)
	}
	job := consume(t, c, queue, ttr, 0)
	if len(job.Attributes) != 2 || job.Attributes["colour"] != "Blue" || job.Attributes["size"] != "L" {
		t.Errorf("attributes: %+v", job.Attributes)
	}
}

func testTTR(t *testing.T, c *client.LmstfyClient) {
	const queue = "ttr"
	id := publishWith(t, c, client.JobRequest{Queue: queue, Data: []byte("slow"), TTL: ttl, Tries: 2})
	start := time.Now()
	if job := consume(t, c, queue, 1, 0); job.ID != id || job.RemainTries != 1 {
		t.Fatalf("the first try: %+v", job)
	}
	if job := consume(t, c, queue, ttr, 10); job.ID != id || job.RemainTries != 0 || time.Since(start) < time.Second {
		t.Errorf("the second try, after %v: %+v", time.Since(start), job)
	}
	check(t, c.Ack(queue, id))
}

// die has a job use up its only try.
func die(t *testing.T, c *client.LmstfyClient, queue, data string, dead int) string {
	t.Helper()
	id := publish(t, c, queue, data)
	consume(t, c, queue, 1, 0)
	// The dead letter has no long poll. An empty consume that waits lets the time
	// pass in which the job dies.
	for deadline := time.Now().Add(10 * time.Second); ; {
		n, _, err := c.PeekDeadLetter(queue)
		check(t, err)
		if n == dead {
			return id
		}
		if time.Now().After(deadline) {
			t.Fatalf("dead jobs in %s: %d, want %d", queue, n, dead)
		}
		if job, err := c.Consume(queue, ttr, 1); err != nil || job != nil {
			t.Fatalf("a job that has used up its tries: %+v, %v", job, err)
		}
	}
}

func testDeadLetter(t *testing.T, c *client.LmstfyClient) {
	const queue = "dead"
	deadLetter := func(wantSize int, wantHead string) {
		t.Helper()
		n, head, err := c.PeekDeadLetter(queue)
		check(t, err)
		if n != wantSize || head != wantHead {
			t.Errorf("dead letter: %d, head %q, want %d, %q", n, head, wantSize, wantHead)
		}
	}
	deadLetter(0, "")
	first := die(t, c, queue, "first", 1)
	second := die(t, c, queue, "second", 2)
	third := die(t, c, queue, "third", 3)
	deadLetter(3, first)
	size(t, c, queue, 0)
	job, err := c.PeekJob(queue, first)
	check(t, err)
	if job == nil || job.TTL != 0 || string(job.Data) != "first" {
		t.Errorf("a dead job: %+v, want one that never expires", job)
	}

	n, err := c.RespawnDeadLetter(queue, 1, ttl)
	check(t, err)
	if n != 1 {
		t.Errorf("respawned %d, want 1", n)
	}
	deadLetter(2, second)
	if job := consume(t, c, queue, ttr, 0); job.ID != first || job.RemainTries != 0 || job.TTL == 0 || job.TTL > ttl {
		t.Errorf("the respawned job: %+v", job)
	}
	check(t, c.Ack(queue, first))

	check(t, c.DeleteDeadLetter(queue, 1))
	deadLetter(1, third)
	if job, err := c.PeekJob(queue, second); err != nil || job != nil {
		t.Errorf("a job deleted from the dead letter: %+v, %v", job, err)
	}
	n, err = c.RespawnDeadLetter(queue, 100, 0)
	check(t, err)
	if n != 1 {
		t.Errorf("respawned %d, want 1", n)
	}
	deadLetter(0, "")
	if job := consume(t, c, queue, ttr, 0); job.ID != third || job.TTL != 0 {
		t.Errorf("the respawned job, for ever: %+v", job)
	}
	n, err = c.RespawnDeadLetter(queue, 1, ttl)
	check(t, err)
	if n != 0 {
		t.Errorf("respawned %d from nothing", n)
	}
}

// testMany has many consumers wait for as many jobs: each gets one.
func testMany(t *testing.T, c *client.LmstfyClient) {
	const queue, n = "many", 50
	ids := make(chan string, n)
	for range n {
		go func() {
			job, err := c.Consume(queue, ttr, 30)
			if err != nil || job == nil {
				t.Errorf("consume: %+v, %v", job, err)
				ids <- ""
				return
			}
			if err := c.Ack(queue, job.ID); err != nil {
				t.Error(err)
			}
			ids <- job.ID
		}()
	}
	want := make([]string, n)
	for i := range want {
		want[i] = publish(t, c, queue, strconv.Itoa(i))
	}
	got := make([]string, n)
	for i := range got {
		got[i] = <-ids
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("consumed %q, published %q", got, want)
	}
	empty(t, c, queue)
}

// refused checks that a call failed with a reason of the server.
func refused(t *testing.T, err error, reason string) {
	t.Helper()
	var api *client.APIError
	if !errors.As(err, &api) || api.Type != client.ResponseErr || !strings.Contains(api.Reason, reason) ||
		len(api.RequestID) != 26 {
		t.Errorf("got %v, want the reason %q and the id of the request", err, reason)
	}
}

func testRefusals(t *testing.T, c *client.LmstfyClient) {
	const queue = "refusals"
	for reason, job := range map[string]client.JobRequest{
		"tries shouldn't be zero":                  {Queue: queue, TTL: ttl},
		"ttl is shorter than delay":                {Queue: queue, TTL: 10, Tries: 1, Delay: 20},
		"queue name contains forbidden characters": {Queue: "a b", Tries: 1},
		"namespace or queue name too long":         {Queue: strings.Repeat("q", 256), Tries: 1},
		"body too large":                           {Queue: queue, Tries: 1, Data: make([]byte, 64<<10)},
	} {
		_, err := c.PublishJob(&job)
		refused(t, err, reason)
	}
	_, err := c.BatchPublish(queue, []any{}, ttl, tries, 0)
	refused(t, err, "no jobs")
	_, err = c.BatchPublish(queue, make([]any, 65), ttl, tries, 0)
	refused(t, err, "too many jobs")
	size(t, c, queue, 0)
	publishWith(t, c, client.JobRequest{Queue: queue, Tries: 1, Data: make([]byte, 64<<10-1)})
	if ids, err := c.BatchPublish(queue, make([]any, 64), ttl, tries, 0); err != nil || len(ids) != 64 {
		t.Errorf("the largest batch: %d ids, %v", len(ids), err)
	}
}

func testTokens(t *testing.T, s service) {
	const queue = "tokens"
	_, err := s.clientOf(t, namespace, "").PublishJob(&client.JobRequest{Queue: queue, Tries: tries})
	refused(t, err, "token not found")
	_, err = s.clientOf(t, namespace, "01BX5ZZKBKACTAV9WEVGEMMVRY").PublishJob(&client.JobRequest{
		Queue: queue,
		Tries: tries,
	})
	refused(t, err, "invalid token")
	_, err = s.clientOf(t, "other", s.token).Consume(queue, ttr, 0)
	refused(t, err, "invalid token")
	_, err = s.clientOf(t, namespace, "nowhere:"+s.token).PublishJob(&client.JobRequest{Queue: queue, Tries: tries})
	refused(t, err, "pool not found")

	mine, theirs := s.client(t), s.clientOf(t, "other", s.newToken(t, "other"))
	publish(t, s.clientOf(t, namespace, "default:"+s.token), queue, "mine")
	empty(t, theirs, queue)
	if job := consume(t, mine, queue, ttr, 0); string(job.Data) != "mine" {
		t.Errorf("consumed %+v", job)
	}
	size(t, s.clientOf(t, namespace, ""), queue, 0) // needs no token
	if err := mine.Ack("no-such-queue", "x"); err != nil {
		t.Error(err)
	}
}
