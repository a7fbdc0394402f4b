package wire

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"
)

// text is a body.
var text = `"` + strings.Repeat("x", 98) + `"`

func listen(t *testing.T) net.Listener {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// step is a request that a client must send and the answer to it.
type step struct {
	request matcher
	answer  string
}

// matcher tells whether a request is what it should be.
type matcher func(request []byte) bool

// is matches a text.
func is(want string) matcher { return func(request []byte) bool { return string(request) == want } }

// like matches a regular expression.
func like(pattern string) matcher { return regexp.MustCompile("^(?s:" + pattern + ")$").Match }

// play is a server with a script. It returns an error if the client does not follow it.
func play(l net.Listener, greeting string, script []step) error {
	c, err := l.Accept()
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // the client looks at what it gets
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	if _, err := c.Write([]byte(greeting)); err != nil {
		return err
	}
	buf := make([]byte, 64<<10)
	for i, s := range script {
		got := 0
		for !s.request(buf[:got]) {
			n, err := c.Read(buf[got:])
			if err != nil {
				return fmt.Errorf("step %d: %w; received %q", i, err, buf[:got])
			}
			got += n
		}
		if _, err := c.Write([]byte(s.answer)); err != nil {
			return err
		}
	}
	return nil
}

const uuidPattern = `[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}`

// iproto is an IPROTO frame.
func iproto(content string) string {
	return string(binary.BigEndian.AppendUint32([]byte{0xce}, uint32(len(content)))) + content
}

// replied is a reply to a request with a sync.
func replied(sync byte, status, body string) string {
	return iproto("\x83\x00\xce\x00\x00" + status + "\x01\xcf\x00\x00\x00\x00\x00\x00\x00" + string([]byte{sync}) +
		"\x05\xce\x00\x00\x00\x01" + body)
}

// data is a good reply.
func data(sync byte, values string) string { return replied(sync, "\x00\x00", "\x81\x30"+values) }

// called is a request.
func called(sync byte, function, args string) string {
	return iproto("\x82\x00\x0a\x01\xcf\x00\x00\x00\x00\x00\x00\x00" + string([]byte{sync}) +
		"\x82\x22" + string([]byte{0xa0 | byte(len(function))}) + function + "\x21" + args)
}

// response is an HTTP response with a body.
func response(status, body string) string {
	return fmt.Sprintf("HTTP/1.1 %s\r\nX-Request-ID: 1\r\ncontent-length: %d\r\n\r\n%s", status, len(body), body)
}

// What the clients send more than once.
var (
	masenkoPush   = `PUSH {"name":"t","queue":"q","payload":` + text + "}\n"
	masenkoFetch  = `FETCH {"queues":["q"],"timeout":1000000000}` + "\n"
	workqAdd      = "add " + uuidPattern + " q 60000 86400000 100\r\n" + text + "\r\n"
	faktoryPush   = `\{"jid":"` + uuidPattern + `","jobtype":"t","queue":"q","args":\[` + text + `\]\}`
	beanstalkdPut = "put 0 0 60 100\r\n" + text + "\r\n"
	iprotoText    = "\xd9\x64" + text
	iprotoSecond  = "\x91\xcb\x3f\xf0\x00\x00\x00\x00\x00\x00"
	lmstfyGet     = "GET /api/bench/q?ttr=60&timeout=1 HTTP/1.1\r\nHost: localhost\r\n\r\n"
)

// What the client of the operator API sends.
var (
	encoded = base64.StdEncoding.EncodeToString([]byte(text))
	restJob = `{"body_base64":"` + encoded + `"}`
)

func posted(path, body string) string {
	return fmt.Sprintf("POST /api/v1/namespaces/bench/%s HTTP/1.1\r\nHost: localhost\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
}

// scripts are by protocol the greeting and then what doAll causes.
var scripts = map[string]struct {
	greeting string
	steps    []step
}{
	"masenko": {"", []step{
		{is(masenkoPush), "OK {\"id\":1}\n"},
		{is("ATOMIC\n" + masenkoPush + masenkoPush + "DONE\n"), "OK {\"ids\":[2,3]}\n"},
		{is(masenkoFetch), "EMPTY {}\n"},
		{is(masenkoFetch), `OK {"id":4711,"queue":"q","name":"t","payload":` + text + "}\n"},
		{is(`ACK {"id":4711}` + "\n"), "OK {}\n"},
		{is(masenkoPush), "ERR {\"msg\":\"no\"}\n"},
	}},
	"workq": {"", []step{
		{like(workqAdd), "+OK\r\n"},
		{like(workqAdd + workqAdd), "+OK\r\n+OK\r\n"},
		{is("lease q 1000\r\n"), "-TIMEOUT\r\n"},
		{is("lease q 1000\r\n"), "+OK 1\r\n0b5f1f8e-6d0f-4f0e-9a53-0d1c2f6f2f11 q 60000 100\r\n" + text + "\r\n"},
		{is("complete 0b5f1f8e-6d0f-4f0e-9a53-0d1c2f6f2f11 0\r\n\r\n"), "+OK\r\n"},
		{like(workqAdd), "-CLIENT-ERROR Duplicate job\r\n"},
	}},
	"faktory": {"+HI {\"v\":2}\r\n", []step{
		{like(`HELLO \{"v":2,"wid":"` + uuidPattern + `"\}` + "\r\n"), "+OK\r\n"},
		{like("PUSH " + faktoryPush + "\r\n"), "+OK\r\n"},
		{like(`PUSHB \[` + faktoryPush + "," + faktoryPush + `\]` + "\r\n"), "$2\r\n{}\r\n"},
		{is("FETCH q\r\n"), "$-1\r\n"},
		{is("FETCH q\r\n"), "$154\r\n{\"jid\":\"12345678\",\"queue\":\"q\",\"jobtype\":\"t\",\"args\":[" + text +
			"]}\r\n"},
		{is(`ACK {"jid":"12345678"}` + "\r\n"), "+OK\r\n"},
		{like("PUSH .*\r\n"), "-ERR no\r\n"},
	}},
	"beanstalkd": {"", []step{
		{is("use q\r\n"), "USING q\r\n"},
		{is("watch q\r\n"), "WATCHING 2\r\n"},
		{is("ignore default\r\n"), "WATCHING 1\r\n"},
		{is(beanstalkdPut), "INSERTED 1\r\n"},
		{is(beanstalkdPut + beanstalkdPut), "INSERTED 2\r\nINSERTED 3\r\n"},
		{is("reserve-with-timeout 1\r\n"), "TIMED_OUT\r\n"},
		{is("reserve-with-timeout 1\r\n"), "RESERVED 2 100\r\n" + text + "\r\n"},
		{is("delete 2\r\n"), "DELETED\r\n"},
		{is(beanstalkdPut), "DRAINING\r\n"},
	}},
	"tarantool": {strings.Repeat(" ", 127) + "\n", []step{
		{is(called(1, "queue.create_tube", "\x93\xa1q\xa4fifo\x81\xadif_not_exists\xc3")), data(1, "\x90")},
		{is(called(2, "queue.tube.q:put", "\x91"+iprotoText)), data(2, "\xdd\x00\x00\x00\x01\x93\x00\xa1r"+iprotoText)},
		{
			is(called(3, "queue.tube.q:put", "\x91"+iprotoText) + called(4, "queue.tube.q:put", "\x91"+iprotoText)),
			data(4, "\x90") + data(3, "\x90"),
		},
		{is(called(5, "queue.tube.q:take", iprotoSecond)), data(5, "\xdd\x00\x00\x00\x00")},
		{
			is(called(6, "queue.tube.q:take", iprotoSecond)),
			data(6, "\xdd\x00\x00\x00\x01\x93\xcd\x01\x02\xa1t"+iprotoText),
		},
		{is(called(7, "queue.tube.q:ack", "\x91\xcd\x01\x02")), data(7, "\x91\x93\xcd\x01\x02\xa1-"+iprotoText)},
		{is(called(8, "queue.tube.q:put", "\x91"+iprotoText)), replied(8, "\x80\x20", "\x81\x31\xa2no")},
	}},
	"lmstfy": {"", []step{
		{
			is("PUT /api/bench/q?tries=3 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n" + text),
			response("201 Created", `{"msg":"published","job_id":"01"}`),
		},
		{
			is("PUT /api/bench/q/bulk?tries=3 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 203\r\n\r\n[" + text +
				"," + text + "]"),
			"HTTP/1.1 201 Created\r\nTransfer-Encoding: " +
				"chunked\r\n\r\n1f\r\n{\"msg\":\"published\",\"job_ids\":[]\r\n1\r\n}\r\n0\r\n\r\n",
		},
		{is(lmstfyGet), response("404 Not Found", `{"msg":"no job available"}`)},
		{is(lmstfyGet), response("200 OK", `{"msg":"new job","namespace":"bench","queue":"q","job_id":"01","data":"`+base64.StdEncoding.EncodeToString([]byte(text))+`"}`)},
		{
			is("DELETE /api/bench/q/job/01 HTTP/1.1\r\nHost: localhost\r\n\r\n"),
			"HTTP/1.1 204 No Content\r\nX-Request-ID: 1\r\n\r\n",
		},
		{like("PUT .*"), response("500 Internal Server Error", `{"error":"internal error"}`)},
	}},
	"rest": {"", []step{
		{
			is(posted("queues/q/jobs", `{"jobs":[`+restJob+`]}`)),
			response("200 OK", `{"pushed":1,"existed":0,"refused":0}`),
		},
		{
			is(posted("queues/q/jobs", `{"jobs":[`+restJob+","+restJob+`]}`)),
			response("200 OK", `{"pushed":2,"existed":0,"refused":0}`),
		},
		{
			is(posted("fetch", `{"queues":["q"],"wait_seconds":1,"holder":""}`)),
			response("200 OK", `{"holder":"1-a","jobs":[]}`),
		},
		{
			is(posted("fetch", `{"queues":["q"],"wait_seconds":1,"holder":"1-a"}`)),
			response("200 OK",
				`{"holder":"1-a","jobs":[{"id":7,"queue":"q","body":{"size":100,"base64":"`+encoded+`"}}]}`),
		},
		{is(posted("jobs/7/ack", `{"queue":"q","holder":"1-a"}`)), response("200 OK", `{"id":7,"state":"done"}`)},
		{is(posted("queues/q/jobs", `{"jobs":[`+restJob+`]}`)), response("503 Service Unavailable", `{"status":503}`)},
	}},
}

// TestWire has every client do everything once and compares what goes over the wire with what the
// protocols say.
func TestWire(t *testing.T) {
	t.Parallel()
	for _, name := range Protocols() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			script, ok := scripts[name]
			if !ok {
				t.Fatal("there is no script")
			}
			l := listen(t)
			defer l.Close() //nolint:errcheck // nobody else connects
			played := make(chan error, 1)
			go func() { played <- play(l, script.greeting, script.steps) }()
			if err := doAll(name, l.Addr().String()); err != nil {
				t.Error(err)
			}
			if err := <-played; err != nil {
				t.Error(err)
			}
		})
	}
}

// doAll pushes, pushes two at once, fetches nothing, fetches a job and acks it, and is refused.
func doAll(name, addr string) error {
	c, err := Dial(name, Options{
		Addr: addr, Queue: "q", Namespace: "bench", Kind: "fifo", Hello: map[string]any{"wid": NewID()},
		Patience: 10 * time.Second,
	})
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // nothing is in flight
	job := Job{Body: []byte(text)}
	if err := c.Push("q", job); err != nil {
		return fmt.Errorf("push: %w", err)
	}
	if err := c.Push("q", job, job); err != nil {
		return fmt.Errorf("push two: %w", err)
	}
	var got Fetched
	for _, want := range []bool{false, true} {
		var ok bool
		got, ok, err = c.Fetch("q", time.Second)
		if err != nil || ok != want || ok && string(got.Body) != text {
			return fmt.Errorf("fetch: %q, %v, want %v, %w", got.Body, ok, want, err)
		}
	}
	if err := c.Ack("q", got.ID); err != nil {
		return fmt.Errorf("ack: %w", err)
	}
	if err := c.Push("q", job); !IsRefused(err) {
		return fmt.Errorf("a refused push: %w", err)
	}
	return nil
}

// TestSubqueues puts tasks into sub-queues.
func TestSubqueues(t *testing.T) {
	t.Parallel()
	l := listen(t)
	played := make(chan error, 1)
	go func() {
		played <- play(l, strings.Repeat(" ", 127)+"\n", []step{
			{is(called(1, "queue.create_tube", "\x93\xa1q\xa5utube\x81\xadif_not_exists\xc3")), data(1, "\x90")},
			{is(called(2, "queue.tube.q:put", "\x92"+iprotoText+"\x81\xa5utube\xa4key0")), data(2, "\x90")},
			{is(called(3, "queue.tube.q:put", "\x92"+iprotoText+"\x81\xa5utube\xa4key1")), data(3, "\x90")},
		})
	}()
	c, err := Dial("tarantool", Options{Addr: l.Addr().String(), Kind: "utube"})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"key0", "key1"} {
		if err := c.Push("q", Job{Body: []byte(text), Group: key}); err != nil {
			t.Error(err)
		}
	}
	if err := errors.Join(<-played, c.Close(), l.Close()); err != nil {
		t.Error(err)
	}
}

// TestBodies finds the body of a job in an answer, whatever JSON it is.
func TestBodies(t *testing.T) {
	t.Parallel()
	for _, body := range []string{`"text"`, `""`, `"a\"b"`, `"\\"`, `{"a":[1,"]"]}`, "12", "null"} {
		got, err := value([]byte(`OK {"id":1,"payload":`+body+`,"failures":1}`), `"payload":`)
		if err != nil || string(got) != body {
			t.Errorf("%s: %s, %v", body, got, err)
		}
	}
}
