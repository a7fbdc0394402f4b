package demo

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"millrace/internal/api"
	"millrace/internal/apiclient"
)

const namespace = "default"

// The queues of the shop.
const (
	mail     = "mail"
	invoices = "invoices"
	images   = "images"
	reports  = "reports"
	webhooks = "webhooks"
)

// shop is the clients of a shop: what they push, and what their workers do with it.
type shop struct {
	clock *Clock
	rnd   *rand.Rand
	api   *apiclient.Client

	orders  []*faktory // worker processes, of which the first also pushes
	photos  *beanstalkd
	numbers *masenko
	hooks   *lmstfy

	second int       // of the shop's life
	outage time.Time // from when on mail fails, for outageFor
	count  int       // of orders
	busy   map[string][]running
	beat   time.Time
}

// running is a job that a worker is at.
type running struct {
	*task
	due   time.Time
	fails string // the error it ends with; empty: it succeeds
	kind  string // of the error
}

// outageFor is how long the mail server of the shop does not answer.
const outageFor = 10 * time.Minute

// open connects all clients and sets up the queues.
func open(ctx context.Context, addrs map[string]string, clock *Clock, past time.Duration) (*shop, error) {
	rnd := rand.New(rand.NewPCG(7, 1815)) //nolint:gosec // the same traffic each time
	s := &shop{clock: clock, rnd: rnd, busy: map[string][]running{}, outage: clock.Now().Add(past * 2 / 3)}
	for i := range 3 {
		f, err := dialFaktory(ctx, addrs["faktory"], fmt.Sprintf("shop-%d", i+1), fmt.Sprintf("app-%02d", i/2+1),
			4100+i)
		if err != nil {
			return s, err
		}
		s.orders = append(s.orders, f)
	}
	var err error
	if s.photos, err = dialBeanstalkd(ctx, addrs["beanstalkd"], images); err != nil {
		return s, err
	}
	w, err := dial(ctx, addrs["masenko"])
	if err != nil {
		return s, err
	}
	s.numbers = &masenko{w}
	s.hooks = &lmstfy{
		"http://" + addrs["lmstfy"] + "/api/" + namespace + "/" + webhooks,
		&http.Client{Timeout: patience},
	}
	if s.api, err = apiclient.New(apiclient.Options{
		URL:   "http://" + addrs["web"],
		Agent: "millrace-demo",
	}); err != nil {
		return s, err
	}
	return s, s.setUp(ctx)
}

// setUp does what an operator of the shop has done.
func (s *shop) setUp(ctx context.Context) error {
	if _, err := s.api.SetLimits(ctx, namespace, webhooks,
		api.Limits{Concurrency: 4, Rate: "5/s", Burst: 5}); err != nil {
		return err
	}
	for _, c := range []struct{ name, schedule, queue, kind string }{
		{"stock", "*/5 * * * *", reports, "SyncStock"},
		{"digest", "*/15 * * * *", mail, "SendDigest"},
		{"closing", "0 3 * * *", reports, "CloseDay"},
	} {
		n := api.NewCron{Schedule: c.schedule, TimeZone: "Europe/Berlin", Queue: c.queue}
		n.Job.Type = c.kind
		if _, err := s.api.SetCron(ctx, namespace, c.name, n); err != nil {
			return err
		}
	}
	return nil
}

// close ends all connections.
func (s *shop) close() {
	for _, f := range s.orders {
		_ = f.conn.Close() // it is over
	}
	if s.photos != nil {
		_ = s.photos.conn.Close()
	}
	if s.numbers != nil {
		_ = s.numbers.conn.Close()
	}
	if s.hooks != nil {
		s.hooks.http.CloseIdleConnections()
	}
	if s.api != nil {
		s.api.Close()
	}
}

// live is one second in the life of the shop.
func (s *shop) live(ctx context.Context) error {
	err := errors.Join(s.sell(ctx), s.work(ctx), s.sign())
	s.second++
	return err
}

// times returns how often something happens in this second that happens so often in a second on average. There are
// waves of customers.
func (s *shop) times(rate float64) int {
	rate *= 1 + 0.35*math.Sin(float64(s.second)/170) + 0.15*math.Sin(float64(s.second)/23)
	n := int(rate)
	if s.rnd.Float64() < rate-float64(n) {
		n++
	}
	return n
}

// sell pushes what orders bring.
func (s *shop) sell(ctx context.Context) error {
	front := s.orders[0]
	for range s.times(2) {
		s.count++
		retry := 8
		if s.count%15 == 0 {
			retry = -1 // straight to the dead
		}
		if err := front.push(s.job("SendReceipt", mail, retry,
			map[string]any{"order": s.count, "to": fmt.Sprintf("customer%d@example.com", s.count%997)})); err != nil {
			return err
		}
		if s.count%3 == 0 {
			if err := front.push(s.job("ChargeCard", invoices, 4,
				map[string]any{"order": s.count, "cents": 500 + s.rnd.IntN(20000)})); err != nil {
				return err
			}
		}
		if s.count%4 == 0 {
			if err := s.hooks.publish(ctx, fmt.Sprintf(`{"event":"order.paid","order":%d}`, s.count)); err != nil {
				return err
			}
		}
	}
	for range s.times(1.5) {
		if err := s.photos.put(fmt.Sprintf(`{"photo":"p%06d.jpg","width":%d}`, s.rnd.IntN(1e6),
			320<<s.rnd.IntN(3))); err != nil {
			return err
		}
	}
	switch {
	case s.second%300 == 120:
		return s.compile()
	case s.second == 60:
		return s.newsletter()
	}
	return nil
}

// job is a job of Faktory.
func (s *shop) job(kind, queue string, retry int, args any) map[string]any {
	return map[string]any{
		"jid": fmt.Sprintf("%s-%08x%04x", kind, s.second, s.rnd.IntN(1<<16)), "jobtype": kind, "queue": queue,
		"retry": retry, "args": []any{args},
	}
}

// compile pushes reports, and a digest that waits for all of them.
func (s *shop) compile() error {
	ids := make([]uint64, 0, 3)
	for _, of := range []string{"sales", "returns", "stock"} {
		id, err := s.numbers.push(fmt.Sprintf(`{"name":"BuildReport","queue":%q,"payload":{"of":%q},"retry":3}`,
			reports, of))
		if err != nil {
			return err
		}
		ids = append(ids, id)
	}
	_, err := s.numbers.push(fmt.Sprintf(`{"name":"MailReports","queue":%q,"payload":{"to":"management"},"blocked_by":[%d,%d,%d]}`, reports, ids[0], ids[1], ids[2]))
	return err
}

// newsletter makes a batch whose jobs are due one after the other, for longer than the staged hour.
func (s *shop) newsletter() error {
	const letters, every = 450, 12 * time.Second
	jobs := make([]map[string]any, 0, letters)
	for i := range letters {
		j := s.job("SendNewsletter", mail, 5, map[string]any{"issue": 11, "part": i})
		j["jid"] = fmt.Sprintf("newsletter-%04d", i)
		j["at"] = s.clock.Now().Add(time.Duration(i) * every).UTC().Format(time.RFC3339)
		jobs = append(jobs, j)
	}
	return s.orders[0].batch("Newsletter of November", jobs)
}

// work has the workers end what they are done with, and take more.
func (s *shop) work(ctx context.Context) error {
	ready, err := s.ready(ctx)
	if err != nil {
		return err
	}
	for _, p := range []struct {
		queue       string
		workers     int
		quick, slow float64 // seconds that a job takes
		take        func() (*task, error)
	}{
		{mail, 8, 0.3, 2.5, func() (*task, error) { return s.order(ready, mail) }},
		{invoices, 4, 0.5, 4, func() (*task, error) { return s.order(ready, invoices) }},
		{images, 6, 0.5, 5, s.photos.reserve},
		{reports, 2, 8, 45, func() (*task, error) { return s.numbers.fetch(reports) }},
		{webhooks, 4, 0.2, 8, func() (*task, error) { return s.hooks.consume(ctx) }},
	} {
		if err := s.finish(p.queue); err != nil {
			return err
		}
		for len(s.busy[p.queue]) < p.workers {
			t, err := p.take()
			if err != nil {
				return err
			}
			if t == nil {
				break
			}
			takes := p.quick + (p.slow-p.quick)*math.Pow(s.rnd.Float64(), 3) // most are quick
			r := running{task: t, due: s.clock.Now().Add(time.Duration(takes * float64(time.Second)))}
			r.kind, r.fails = s.trouble(p.queue, t.kind)
			s.busy[p.queue] = append(s.busy[p.queue], r)
		}
	}
	return nil
}

// ready tells how many jobs of each queue could be fetched: a fetch from an empty one would wait.
func (s *shop) ready(ctx context.Context) (map[string]uint64, error) {
	page, err := s.api.Queues(ctx, api.QueueFilter{Namespace: namespace}, api.PageOf{})
	ready := make(map[string]uint64)
	for i := range page.Queues {
		if q := &page.Queues[i]; !q.Paused {
			ready[q.Name] = q.Counts["ready"]
		}
	}
	return ready, err
}

// order has one of the processes take a job.
func (s *shop) order(ready map[string]uint64, queue string) (*task, error) {
	if ready[queue] == 0 {
		return nil, nil
	}
	ready[queue]--
	return s.orders[s.rnd.IntN(len(s.orders))].fetch(queue)
}

// finish ends the jobs of a queue whose time has come.
func (s *shop) finish(queue string) error {
	now := s.clock.Now()
	var errs []error
	s.busy[queue] = slices.DeleteFunc(s.busy[queue], func(r running) bool {
		if r.due.After(now) {
			return false
		}
		if r.fails != "" {
			errs = append(errs, r.fail(r.kind, r.fails))
		} else {
			errs = append(errs, r.ack())
		}
		return true
	})
	return errors.Join(errs...)
}

// trouble says with which error a job ends, if it does.
func (s *shop) trouble(queue, kind string) (errorKind, message string) {
	now, chance := s.clock.Now(), s.rnd.Float64()
	switch {
	case kind == "SendReceipt" && now.After(s.outage) && now.Before(s.outage.Add(outageFor)) && chance < 0.85:
		return "Net::OpenTimeout", fmt.Sprintf("no answer from smtp.example.com:587 after %d ms", 5000+s.rnd.IntN(200))
	case kind == "ChargeCard" && chance < 0.06:
		return "CardDeclined", fmt.Sprintf("card declined by the bank, reference %06d", s.rnd.IntN(1e6))
	case kind == "BuildReport" && chance < 0.05:
		return "", "failed"
	case queue == images && chance < 0.004:
		return "", "not an image"
	case queue == webhooks && chance < 0.02:
		return "", "no answer"
	}
	return "", ""
}

// sign has the worker processes tell now and then that they are alive. They are watched by the clock of the machine.
func (s *shop) sign() error {
	if time.Since(s.beat) < 5*time.Second {
		return nil
	}
	s.beat = time.Now()
	var errs []error
	for i, f := range s.orders {
		errs = append(errs, f.beat(180_000+9_000*i+s.rnd.IntN(4000)))
	}
	return errors.Join(errs...)
}
