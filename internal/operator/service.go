package operator

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"millrace/internal/api"
	"millrace/internal/auth"
	"millrace/internal/engine"
	"millrace/internal/job"
)

// Options are what a Service needs. Only the engine is required: what a function that is
// not given would tell is shown as empty.
type Options struct {
	Engine  *engine.Engine
	Logger  *slog.Logger
	Version string
	// Durability is the name of what an acknowledgement promises.
	Durability string

	// DoorName names the door that a job came or went through.
	DoorName func(job.Door) string
	// FindID reads an id in the form in which a protocol shows one; not ok for any other text.
	FindID func(text string) (id job.ID, ok bool)
	// Workers are the registries of worker processes.
	Workers []WorkerRegistry
	// AddNames adds the names of holders that have told one without being registered.
	AddNames func(map[job.Holder]string)
	// Adopt returns what reads the lines of a migration to a protocol and namespace.
	Adopt func(protocol, namespace string) (func(line []byte) (Arrived, error), error)
	// Tokens are those of the protocol that has some.
	Tokens TokenRegistry
	// Connections tells how many connections there are, by protocol and namespace.
	Connections func() []api.Connections
	// Settings are the effective configuration, with secrets masked.
	Settings func() []api.Setting
	// FreeBytes tells how much space is left on the disk.
	FreeBytes func() (uint64, error)
	// FreeFloor is how much must be left for pushes to be accepted; zero: pushes are always accepted.
	FreeFloor uint64
	// Cluster is the cluster that the server is part of; nil: none.
	Cluster Cluster
	// CallsURLs tells that hooks may call URLs: there is a secret to sign calls with.
	CallsURLs bool
	// Door is the door of jobs that are pushed and fetched here.
	Door job.Door
	// DataDir is where the data is.
	DataDir string
	// BackupDir is what backups are below, an absolute path; without it none is made.
	BackupDir string

	// Now is the time, which history and activity are kept by; default the clock of the machine.
	Now func() time.Time
	// SampleEvery is how often the counters are read; default one second.
	SampleEvery time.Duration
	// Reads, if set, counts the jobs that lists and searches look at: for tests.
	Reads func(Reads)
}

// Reads tells how much one request has read.
type Reads struct {
	Queues int // queue records
	Jobs   int // entries of lists
	Loads  int // jobs read whole
	Bytes  int // of those
}

// Service is what an operator can see and do. All its methods may be called from any
// goroutine.
type Service struct {
	opts    Options
	engine  *engine.Engine
	log     *slog.Logger
	started time.Time

	sampler    sampler
	activities activities
	bulk       bulkRunner

	copyData func(dir string) error // of a node that does not lead, for a backup
	tokenKey []byte                 // makes ids of tokens
	logins   *auth.Sessions
	work     workState
	// searching has one place: several searches at a time would keep everybody else from the processors.
	searching chan struct{}

	draining atomic.Bool
	drained  chan struct{} // closed when streams must end
	once     sync.Once
	cancel   context.CancelFunc // ends the goroutines
	ended    sync.WaitGroup     // the goroutines
}

// New returns a Service, which is at work until Close. It reads its keys and the bulk actions
// that an earlier run has left, and goes on with them.
func New(o Options) (*Service, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.DoorName == nil {
		o.DoorName = func(job.Door) string { return "unknown" }
	}
	if o.FindID == nil {
		o.FindID = func(string) (job.ID, bool) { return 0, false }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.SampleEvery <= 0 {
		o.SampleEvery = time.Second
	}
	s := &Service{
		opts: o, engine: o.Engine, log: o.Logger, started: o.Now(), drained: make(chan struct{}),
		searching: make(chan struct{}, 1),
	}
	s.work.imports = make(chan struct{}, importAtOnce)
	if err := s.initKeys(); err != nil {
		return nil, err
	}
	s.sampler.init(s)
	if err := s.activities.load(s); err != nil {
		return nil, err
	}
	if err := s.bulk.init(s); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.ended.Go(func() { s.sampler.run(ctx) })
	s.ended.Go(func() { s.bulk.run(ctx) })
	return s, nil
}

// Drain says that the server is stopping: streams end, and it is not ready any more.
func (s *Service) Drain() {
	s.once.Do(func() {
		s.draining.Store(true)
		close(s.drained)
	})
}

// Close ends what runs in the background and waits for it. A bulk action that is not done
// goes on with the next start. The engine must still be open.
func (s *Service) Close() {
	s.Drain()
	s.cancel()
	s.ended.Wait()
}

// workState is what the calls share that copy jobs.
type workState struct {
	backup  sync.Mutex    // held while one is made
	imports chan struct{} // has an entry for each request of an import or a migration that is at work
	migrate sync.Mutex    // held while one of a migration looks for marks and makes them
}

// Log returns the log of the service.
func (s *Service) Log() *slog.Logger { return s.log }

// IsStandby reports whether the service is that of a node that does not lead.
func (s *Service) IsStandby() bool { return s.engine == nil }

// view runs f on the data of one moment.
func (s *Service) view(f func(*engine.View) error) (err error) {
	v, err := s.engine.View()
	if err != nil {
		return api.Refusal(err)
	}
	defer func() { // also after a panic
		if cerr := v.Close(); err == nil {
			err = cerr
		}
	}()
	return api.Refusal(f(v))
}

// search is view for what looks at very many queues or jobs: one at a time does so.
func (s *Service) search(f func(*engine.View) error) error {
	s.searching <- struct{}{}
	defer func() { <-s.searching }()
	return s.view(f)
}

// do submits one command that does not wait.
func (s *Service) do(ctx context.Context, cmd job.Command) (job.Result, error) {
	results := s.engine.NewCallerAt(s.opts.Door).Do(ctx, cmd)
	if err := results[0].Err; err != nil {
		return results[0], api.Refusal(err)
	}
	return results[0], nil
}
