package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// patience bounds how long an answer may take.
const patience = 30 * time.Second

// wire is a connection of a protocol of lines.
type wire struct {
	conn net.Conn
	in   *bufio.Reader
}

func dial(ctx context.Context, addr string) (*wire, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &wire{conn, bufio.NewReader(conn)}, nil
}

// ask sends lines and returns the first line of the answer.
func (w *wire) ask(lines ...string) (string, error) {
	if err := w.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(w.conn, strings.Join(lines, "\r\n")+"\r\n"); err != nil {
		return "", err
	}
	return w.line()
}

func (w *wire) line() (string, error) {
	text, err := w.in.ReadString('\n')
	return strings.TrimRight(text, "\r\n"), err
}

// body reads n bytes and the end of their line.
func (w *wire) body(size string) ([]byte, error) {
	n, err := strconv.Atoi(size)
	if err != nil {
		return nil, err
	}
	b := make([]byte, n+2)
	_, err = io.ReadFull(w.in, b)
	return b[:n], err
}

// expect turns an answer that does not begin as it should into an error.
func expect(begin string) func(answer string, err error) error {
	return func(answer string, err error) error {
		if err == nil && !strings.HasPrefix(answer, begin) {
			err = fmt.Errorf("answer %q, want %s", answer, begin)
		}
		return err
	}
}

// task is a job in a worker's hands.
type task struct {
	kind string // its type
	ack  func() error
	fail func(kind, message string) error
}

// faktory is a worker process and producer of Faktory.
type faktory struct {
	*wire
	wid string
}

func dialFaktory(ctx context.Context, addr, wid, host string, pid int) (*faktory, error) {
	w, err := dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	f := &faktory{w, wid}
	if _, err = w.line(); err == nil { // its greeting
		err = expect("+OK")(w.ask(fmt.Sprintf(`HELLO {"v":2,"wid":%q,"hostname":%q,"pid":%d,"labels":["ruby","shop"]}`,
			wid, host, pid)))
	}
	return f, err
}

func (f *faktory) push(job map[string]any) error {
	text, err := json.Marshal(job)
	if err != nil {
		return err
	}
	return expect("+OK")(f.ask("PUSH " + string(text)))
}

// beat tells that the worker is alive. Somebody may have told it to be quiet, which it does not heed.
func (f *faktory) beat(rss int) error {
	answer, err := f.ask(fmt.Sprintf(`BEAT {"wid":%q,"rss_kb":%d}`, f.wid, rss))
	if err == nil && strings.HasPrefix(answer, "$") {
		_, err = f.line()
	}
	return err
}

// fetch takes a job. If there is none it waits for a while.
func (f *faktory) fetch(queue string) (*task, error) {
	size, err := f.ask("FETCH " + queue)
	if err != nil || size == "$-1" {
		return nil, err
	}
	text, err := f.body(strings.TrimPrefix(size, "$"))
	if err != nil {
		return nil, err
	}
	var job struct {
		JID  string `json:"jid"`
		Type string `json:"jobtype"`
	}
	if err := json.Unmarshal(text, &job); err != nil {
		return nil, err
	}
	return &task{
		kind: job.Type,
		ack:  func() error { return f.settle(fmt.Sprintf(`ACK {"jid":%q}`, job.JID)) },
		fail: func(kind, message string) error {
			return f.settle(fmt.Sprintf(`FAIL {"jid":%q,"errtype":%q,"message":%q,"backtrace":["app/jobs/shop.rb:42:in 'perform'","lib/worker.rb:17:in 'run'"]}`,
				job.JID, kind, message))
		},
	}, nil
}

// settle ends a job. An operator may have done so before.
func (f *faktory) settle(line string) error {
	_, err := f.ask(line)
	return err
}

// batch makes a batch of jobs.
func (f *faktory) batch(about string, jobs []map[string]any) error {
	answer, err := f.ask(fmt.Sprintf(`BATCH NEW {"description":%q,"success":{"jid":"newsletter-sent","jobtype":"TellMarketing","args":[],"queue":"mail"}}`, about))
	if err != nil {
		return err
	}
	id := strings.TrimPrefix(answer, "+")
	if size, ok := strings.CutPrefix(answer, "$"); ok {
		text, err := f.body(size)
		if err != nil {
			return err
		}
		id = string(text)
	}
	for _, job := range jobs {
		job["custom"] = map[string]string{"bid": id}
		if err := f.push(job); err != nil {
			return err
		}
	}
	return expect("+OK")(f.ask("BATCH COMMIT " + id))
}

// beanstalkd is a producer and worker of one tube.
type beanstalkd struct{ *wire }

func dialBeanstalkd(ctx context.Context, addr, tube string) (*beanstalkd, error) {
	w, err := dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	if err = expect("USING")(w.ask("use " + tube)); err == nil {
		err = expect("WATCHING")(w.ask("watch " + tube))
	}
	if err == nil {
		err = expect("WATCHING")(w.ask("ignore default"))
	}
	return &beanstalkd{w}, err
}

func (b *beanstalkd) put(body string) error {
	return expect("INSERTED")(b.ask(fmt.Sprintf("put 1024 0 120 %d", len(body)), body))
}

func (b *beanstalkd) reserve() (*task, error) {
	answer, err := b.ask("reserve-with-timeout 0")
	if err != nil || !strings.HasPrefix(answer, "RESERVED ") {
		return nil, err
	}
	parts := strings.Fields(answer)
	if _, err := b.body(parts[2]); err != nil {
		return nil, err
	}
	settle := func(line string) error { _, err := b.ask(line); return err }
	return &task{
		ack:  func() error { return settle("delete " + parts[1]) },
		fail: func(string, string) error { return settle("bury " + parts[1] + " 1024") },
	}, nil
}

// masenko is a producer and worker of Masenko.
type masenko struct{ *wire }

func (m *masenko) push(text string) (id uint64, err error) {
	answer, err := m.ask("PUSH " + text)
	if err = expect("OK ")(answer, err); err != nil {
		return 0, err
	}
	var got struct {
		ID uint64 `json:"id"`
	}
	return got.ID, unmarshalTail(answer, &got)
}

func unmarshalTail(answer string, to any) error {
	_, text, _ := strings.Cut(answer, " ")
	return json.Unmarshal([]byte(text), to)
}

func (m *masenko) fetch(queue string) (*task, error) {
	answer, err := m.ask(fmt.Sprintf(`FETCH {"queues":[%q],"timeout":"1ms"}`, queue))
	if err != nil || strings.HasPrefix(answer, "EMPTY") {
		return nil, err
	}
	var got struct {
		ID   uint64 `json:"id"`
		Name string `json:"name"`
	}
	if err := errors.Join(expect("OK ")(answer, nil), unmarshalTail(answer, &got)); err != nil {
		return nil, err
	}
	settle := func(verb string) error { _, err := m.ask(fmt.Sprintf(`%s {"id":%d}`, verb, got.ID)); return err }
	return &task{
		kind: got.Name,
		ack:  func() error { return settle("ACK") },
		fail: func(string, string) error { return settle("NACK") },
	}, nil
}

// lmstfy is a producer and worker of one queue of LMSTFY.
type lmstfy struct {
	url  string // of the queue
	http *http.Client
}

// call asks for something. Bodies are read whole, so that the connection is used again.
func (l *lmstfy) call(ctx context.Context, method, path, body string) (status int, answer []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, method, l.url+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	resp, err := l.http.Do(r)
	if err != nil {
		return 0, nil, err
	}
	answer, err = io.ReadAll(resp.Body)
	_ = resp.Body.Close() // it has been read
	return resp.StatusCode, answer, err
}

func (l *lmstfy) publish(ctx context.Context, body string) error {
	status, answer, err := l.call(ctx, http.MethodPut, "?tries=3&ttl=7200", body)
	if err == nil && status != http.StatusCreated {
		err = fmt.Errorf("publish: %d %s", status, answer)
	}
	return err
}

func (l *lmstfy) consume(ctx context.Context) (*task, error) {
	status, answer, err := l.call(ctx, http.MethodGet, "?ttr=20&timeout=0", "")
	if err != nil || status != http.StatusOK {
		return nil, err
	}
	var got struct {
		ID string `json:"job_id"`
	}
	if err := json.Unmarshal(answer, &got); err != nil {
		return nil, err
	}
	return &task{
		ack: func() error {
			_, _, err := l.call(ctx, http.MethodDelete, "/job/"+got.ID, "")
			return err
		},
		fail: func(string, string) error { return nil }, // it comes again when its time is up
	}, nil
}
