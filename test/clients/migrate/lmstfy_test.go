package migrate

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	lmstfy "github.com/bitleak/lmstfy/client"

	"millrace/test/clients/kit"
)

// lmstfyClient returns a client of a namespace.
func lmstfyClient(t *testing.T, addr, namespace, token string) *lmstfy.LmstfyClient {
	t.Helper()
	host, port := hostPort(t, addr)
	n := 0
	if _, err := fmt.Sscan(port, &n); err != nil {
		t.Fatal(err)
	}
	return lmstfy.NewLmstfyClient(host, n, namespace, token)
}

// startLmstfy starts an original server with its Redis, with two pools in two of its databases.
func startLmstfy(t *testing.T) (addr, admin, redis string) {
	t.Helper()
	dir, redis := tempDir(t), freeAddr(t)
	_, redisPort := hostPort(t, redis)
	start(t, "tcp", redis, installed(t, "redis-server"), "--port", redisPort, "--bind", "127.0.0.1", "--dir", dir,
		"--appendonly", "yes", "--appendfsync", "no", "--loglevel", "warning")
	addr, admin = freeAddr(t), freeAddr(t)
	_, port := hostPort(t, addr)
	_, adminPort := hostPort(t, admin)
	conf := fmt.Sprintf("Host = \"127.0.0.1\"\nPort = %s\nAdminHost = \"127.0.0.1\"\nAdminPort = "+
		"%s\nLogLevel = \"error\"\n"+
		"[AdminRedis]\nAddr = %q\n[Pool.default]\nAddr = %q\n[Pool.fast]\nAddr = %q\nDB = "+
		"1\n", port, adminPort, redis, redis, redis)
	file := filepath.Join(dir, "lmstfy.toml")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, "tcp", addr, build(t, "lmstfy", "github.com/bitleak/lmstfy/server"), "-c", file, "-p",
		filepath.Join(dir, "pid"))
	return addr, admin, redis
}

// newLmstfyToken has the original server make a token.
func newLmstfyToken(t *testing.T, admin, pool, namespace, description string) string {
	t.Helper()
	q := url.Values{"pool": {pool}, "description": {description}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
		"http://"+admin+"/token/"+namespace+"?"+q.Encode(), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // it has been read
	var out struct{ Token string }
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil || out.Token == "" {
		t.Fatalf("%s, %v, %+v", resp.Status, err, out)
	}
	return out.Token
}

// TestLmstfy moves from an LMSTFY server by the Redis of its pools, tokens included.
func TestLmstfy(t *testing.T) {
	t.Parallel()
	addr, admin, redis := startLmstfy(t)
	token := newLmstfyToken(t, admin, "", "ns", "for the tests")
	fast := newLmstfyToken(t, admin, "fast", "ns", "for the fast ones")
	c := lmstfyClient(t, addr, "ns", token)
	want := map[string]string{}
	publish := func(c *lmstfy.LmstfyClient, queue, body string, ttl uint32, tries uint16, delay uint32) {
		id, err := c.PublishJob(&lmstfy.JobRequest{
			Queue: queue, Data: []byte(body), TTL: ttl,
			Tries: tries, Delay: delay,
		})
		if err != nil {
			t.Fatal(err)
		}
		want[id] = body
	}
	for i := range 450 {
		publish(c, "ready", fmt.Sprintf("%03d \x00ä", i), 0, 3, 0)
	}
	for i := range 20 {
		publish(c, "later", fmt.Sprint(i), 1000, 2, 500)
	}
	for i := range 5 { // one try, which is lost: the job is a dead letter
		publish(c, "dead", fmt.Sprint(i), 0, 1, 0)
	}
	for range 5 {
		if j, err := c.Consume("dead", 1, 5); err != nil || j == nil {
			t.Fatal(j, err)
		}
	}
	for range 4 { // acknowledged ones leave traces in Redis
		id, err := c.PublishJob(&lmstfy.JobRequest{Queue: "ready", Data: []byte("gone"), Tries: 1})
		if err != nil || c.Ack("ready", id) != nil {
			t.Fatal(err)
		}
	}
	await(t, "the dead letters are there", func() bool {
		n, _, err := c.PeekDeadLetter("dead")
		if err != nil {
			t.Fatal(err)
		}
		return n == 5
	})
	others := len(want)
	publish(lmstfyClient(t, addr, "ns", fast), "ready", "fast", 0, 1, 0)

	s := kit.Start(t, []string{"web", "lmstfy"}, "--lmstfy-auth", "token", "--lmstfy-pools", "fast")
	r := everything(t, s, uint64(others), "lmstfy", "redis://"+redis+"/0")
	states := map[string]uint64{}
	for _, q := range r.Queues {
		states[q.State] += q.Read
	}
	if fmt.Sprint(states) != "map[dead:5 ready:450 scheduled:20]" {
		t.Errorf("%v", states)
	}
	everything(t, s, 1, "lmstfy", "redis://"+redis+"/1?pool=fast")

	c = lmstfyClient(t, s.Addr("lmstfy"), "ns", token) // the same tokens
	check := func(c *lmstfy.LmstfyClient, queue string, tries int64, count int) {
		last := ""
		for range count {
			j, err := c.Consume(queue, 600, 5)
			if err != nil || j == nil {
				t.Fatalf("%s: %v, %v", queue, j, err)
			}
			if body, ok := want[j.ID]; !ok || body != string(j.Data) || j.RemainTries != tries || body < last &&
				queue == "ready" {
				t.Errorf("%s: %+v, want %q, %d tries, after %q", queue, j, body, tries, last)
			}
			last = string(j.Data)
			delete(want, j.ID)
			if err := c.Ack(queue, j.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	check(c, "ready", 2, 450)
	if n, err := c.RespawnDeadLetter("dead", 10, 0); err != nil || n != 5 {
		t.Errorf("%d, %v", n, err)
	}
	check(c, "dead", 0, 5)
	check(lmstfyClient(t, s.Addr("lmstfy"), "ns", fast), "ready", 0, 1)
	for id := range want {
		j, err := c.PeekJob("later", id)
		if err != nil || j == nil || string(j.Data) != want[id] || j.TTL < 900 || j.TTL > 1000 {
			t.Errorf("%+v, %v", j, err)
		}
	}
	if len(want) != 20 {
		t.Errorf("%d jobs wait for their time", len(want))
	}
	nothing(t, s, uint64(others), "lmstfy", "redis://"+redis+"/0")
	if !strings.Contains(fast, ":") {
		t.Errorf("%q", fast)
	}
}
