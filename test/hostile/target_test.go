//go:build linux

package hostile

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"net"
	"strings"

	"millrace/internal/dialect/tarantool/tarantooltest"
	"millrace/internal/dialect/workq/workqtest"
	client "millrace/internal/wire"
)

// target is a listener and how to annoy it.
type target struct {
	name string // of the listener
	addr string
	// shake does the handshake; nil if there is none. It returns a reader of what follows.
	shake func(net.Conn) (*bufio.Reader, error)
	// whole returns a request that takes effect: number tells them apart.
	whole func(number int) string
	// cheap is a request that can be sent any number of times, and answers counts the
	// answers to it in a stream of them.
	cheap   string
	answers func(*bufio.Reader) error
	// bulky is a request with an answer of some length.
	bulky string
	// giants begin requests that announce, or are, more than is good.
	giants []string
	// nested are requests with a million levels, or the beginnings of such.
	nested []string
	http   bool
}

const levels = 1_000_000

// shakeAs does the handshake of a protocol as an ordinary client does.
func shakeAs(protocol string) func(net.Conn) (*bufio.Reader, error) {
	return func(conn net.Conn) (*bufio.Reader, error) {
		c, err := client.New(protocol, conn, client.Options{})
		if err != nil {
			return nil, err
		}
		return c.Reader(), nil
	}
}

// targets are all listeners of the server.
func targets(addrs map[string]string) []target {
	all := []target{
		masenkoTarget(), workqTarget(), beanstalkdTarget(), faktoryTarget(), tarantoolTarget(), tarantool15Target(),
		httpTarget("lmstfy", "PUT", "/api/default/hostile", "/api/default/hostile/size", "/openapi.json",
			"/api/default/hostile/bulk"),
		httpTarget("admin", "POST", "/token/hostile?description=x", "/version", "/openapi-admin.json",
			"/token/hostile/none/limit"),
		httpTarget("web", "POST", "/api/v1/namespaces/default/queues/hostile/pause", "/livez", "/openapi.json",
			"/api/v1/actions"),
		restTarget(),
	}
	for i := range all {
		all[i].addr = addrs[client.Listener(all[i].name)]
	}
	return all
}

// line reads an answer of one line.
func line(r *bufio.Reader) error {
	_, err := r.ReadSlice('\n')
	return err
}

func masenkoTarget() target {
	push := `PUSH {"name":"n","queue":"hostile","payload":`
	return target{
		name:  "masenko",
		whole: func(n int) string { return push + fmt.Sprint(n) + "}\n" },
		cheap: "PING {}\n", answers: line, bulky: "INFO\n",
		giants: []string{
			push + `"` + strings.Repeat("x", 12<<20), "ATOMIC\n" + strings.Repeat(push+"1}\n", 60000),
			strings.Repeat("x", 1<<20),
		},
		nested: []string{
			push + strings.Repeat("[", levels) + strings.Repeat("]", levels) + "}\n",
			push + strings.Repeat(`{"a":`, levels) + "\n",
		},
	}
}

func workqTarget() target {
	add := func(size string) string {
		return "add " + workqtest.NewID() + " hostile 60000 600000 " + size + "\r\n"
	}
	return target{
		name:  "workq",
		whole: func(int) string { return add("4") + "body\r\n" },
		cheap: "delete 6ba7b810-9dad-11d1-80b4-00c04fd430c4\r\n", answers: line,
		bulky: "inspect jobs hostile 0 100\r\n",
		giants: []string{
			add("999999999999999999"), add("1048576") + strings.Repeat("x", 1<<19),
			strings.Repeat("x", 2<<20), add("-1"), add("1048577") + "x\r\n",
		},
		nested: []string{
			"add " + strings.Repeat("-a=", levels) + "\r\n",
			"lease " + strings.Repeat("q ", levels/4) + "0\r\n",
		},
	}
}

func beanstalkdTarget() target {
	put := func(size string) string { return "put 0 0 60 " + size + "\r\n" }
	return target{
		name:  "beanstalkd",
		whole: func(int) string { return put("4") + "body\r\n" },
		cheap: "list-tube-used\r\n", answers: line,
		bulky: "stats\r\n",
		giants: []string{
			put("4294967295") + strings.Repeat("x", 1<<20), put("65535") + strings.Repeat("x", 1<<15),
			strings.Repeat("x", 2<<20), put("-1"), put("65536") + "x\r\n",
		},
		nested: []string{
			"use " + strings.Repeat("(", levels) + "\r\n",
			strings.Repeat("watch x\r\nignore x\r\n", levels/100),
		},
	}
}

func faktoryTarget() target {
	push := func(args string) string {
		return `PUSH {"jid":"` + client.NewID() + `","jobtype":"t","queue":"hostile","args":` + args
	}
	return target{
		name:  "faktory",
		shake: shakeAs("faktory"),
		whole: func(n int) string { return push(fmt.Sprintf("[%d]}\r\n", n)) },
		cheap: `ACK {"jid":"nobody-has-it"}` + "\r\n", answers: line, bulky: "INFO\r\n",
		giants: []string{
			push(`["` + strings.Repeat("x", 40<<20)),
			"PUSHB [" + strings.Repeat(push("[]}")[5:]+",", 100000),
		},
		nested: []string{
			push(strings.Repeat("[", levels) + strings.Repeat("]", levels) + "}\r\n"),
			"BATCH NEW " + strings.Repeat(`{"success":`, levels) + "\r\n",
		},
	}
}

func tarantoolTarget() target {
	put := func(data string, number int) string {
		return string(tarantooltest.CallPacket(tarantooltest.TypeCall, uint64(number), "queue.put", 7,
			append(tarantooltest.MustEncode(`0, "hostile", 0, 0, 0, 127`), data...)))
	}
	return target{
		name:    "tarantool",
		shake:   shakeAs("tarantool"),
		whole:   func(n int) string { return put("\xa1x", n) },
		cheap:   string(tarantooltest.Packet(tarantooltest.TypePing, 1, nil)),
		answers: func(r *bufio.Reader) error { _, err := tarantooltest.ReadReply(r); return err },
		bulky:   string(tarantooltest.CallPacket(tarantooltest.TypeCall, 1, "box.info", 0, nil)),
		giants: []string{
			"\xce\xff\xff\xff\xff", "\xcf\xff\xff\xff\xff\xff\xff\xff\xff",
			"\xce\x04\x00\x00\x00" + strings.Repeat("\x00", 40<<20),
			"\x10\x82\x00\x0a\x01\x01\x82\x21\xdd\xff\xff\xff\xff\x22\x90\x00\x00\x00",
			"\x10\x82\x00\x0a\x01\x01\x82\x22\xdb\xff\xff\xff\xff",
		},
		nested: []string{
			put(strings.Repeat("\x91", levels)+"\xc0", 1),
			put(strings.Repeat("\x81\xa1a", levels)+"\xc0", 2),
		},
	}
}

func tarantool15Target() target {
	length := func(n uint32) string {
		b := binary.LittleEndian.AppendUint32(nil, tarantooltest.Box15TypeCall)
		b = binary.LittleEndian.AppendUint32(b, n)
		return string(binary.LittleEndian.AppendUint32(b, 1))
	}
	return target{
		name: "tarantool15",
		whole: func(n int) string {
			return string(tarantooltest.Box15CallPacket(uint32(n), "queue.put", "0", "hostile", "", "", "", "", "body"))
		},
		cheap:   string(tarantooltest.Box15Packet(tarantooltest.Box15TypePing, 1, nil)),
		answers: func(r *bufio.Reader) error { _, err := tarantooltest.ReadBox15(r); return err },
		bulky:   string(tarantooltest.Box15CallPacket(1, "queue.statistics", "0", "hostile")),
		giants: []string{
			length(1<<32 - 1), length(60<<20) + strings.Repeat("\x00", 40<<20),
			length(12) + "\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff",
		},
		nested: []string{length(levels) + "\x00\x00\x00\x00\x01q" + strings.Repeat("\xff", levels)},
	}
}

func restTarget() target {
	const namespace = "/api/v1/namespaces/default"
	t := httpTarget("rest", "POST", namespace+"/queues/hostile/jobs", "/livez", "/openapi.json", namespace+"/fetch")
	t.whole = func(n int) string {
		return request("POST", namespace+"/queues/hostile/jobs", fmt.Sprintf(`{"jobs":[{"body":%d}]}`, n))
	}
	return t
}

// request is an HTTP request with a body.
func request(method, path, body string) string {
	return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "+
		"%d\r\n\r\n%s", method, path, len(body), body)
}

func httpTarget(name, method, push, cheap, bulky, nest string) target {
	head := method + " " + push + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	get := func(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n" }
	nestMethod := method
	if name == "admin" {
		nestMethod = "PUT"
	}
	return target{
		name: name, http: true,
		whole: func(int) string { return request(method, push, "{}") },
		cheap: get(cheap), answers: answer, bulky: get(bulky),
		giants: []string{
			head + "Content-Length: 999999999999\r\n\r\n" + strings.Repeat("x", 1<<20),
			head + "Content-Length: 99999999999999999999999999\r\n\r\n",
			head + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n" + strings.Repeat("x", 1<<20),
			head + "Transfer-Encoding: chunked\r\n\r\n" +
				strings.Repeat("10000\r\n"+strings.Repeat("x", 1<<16)+"\r\n", 200),
			head + "X-Long: " + strings.Repeat("x", 4<<20),
			head + strings.Repeat("X: y\r\n", 200000),
			"GET /" + strings.Repeat("a/", 2<<20),
		},
		nested: []string{
			request(nestMethod, nest, strings.Repeat("[", levels)+strings.Repeat("]", levels)),
			request(nestMethod, nest, strings.Repeat(`{"a":`, levels)),
		},
	}
}
