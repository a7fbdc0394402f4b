package dialecttest

import (
	"bufio"
	"errors"
	"net"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/wire"
)

// ErrEmpty is what Client.Fetch returns when there was no job in time, and
// ErrUnable what a client returns that has no call for what is asked of it.
var (
	ErrEmpty  = errors.New("no job")
	ErrUnable = errors.New("the protocol has no such call")
)

// Settings are what the tests ask of a dialect.
type Settings struct {
	dialect.Options
	MaxCommand int // most bytes of one command or line
}

// Task is a fetched job.
type Task struct {
	Handle string // whatever Ack wants
	Body   string // as JSON
}

// Wishes are what a push may ask for beyond its body. A protocol leaves out what
// it cannot say: Driver.Abilities tells what it can.
type Wishes struct {
	Level int           // priority: below zero is low, zero says nothing, above is high
	Delay time.Duration // whole seconds
	TTL   time.Duration // whole seconds
	Last  bool          // the first failure, or lapse of a lease, is the last
	Group string
	Trace string // a traceparent
}

// Abilities are which wishes a protocol can tell the server, and whether its workers
// can have a job fail.
type Abilities struct{ High, Low, Delay, TTL, Fail, Group, Trace bool }

// End is what becomes of a job that has used up its tries.
type End string

// The ends. EndNone is that of a protocol whose jobs have any number of tries.
const (
	EndNone   End = ""
	EndDead   End = "dead"
	EndFailed End = "failed"
	EndMoved  End = "moved" // into the queue that wire.DeadQueue names
)

// Sight is how many jobs a protocol says there are, with Untold for what it does not tell.
type Sight = wire.Sight

// Untold stands in a Sight for what the protocol does not tell.
const Untold = wire.Untold

// Client is a well-behaved client on one connection.
type Client interface {
	// Push pushes a job whose body is the given JSON.
	Push(queue, body string) error
	// PushWith is Push with wishes.
	PushWith(queue, body string, w Wishes) error
	// FetchFail fetches a job, which must be there, and has it fail: by saying so, or
	// by letting its lease lapse where the protocol has no other way; or ErrUnable.
	FetchFail(queue string) error
	// Inspect returns the body of a job that this client has fetched, by looking and
	// not by fetching; or ErrUnable.
	Inspect(handle string) (string, error)
	// Look tells about a queue.
	Look(queue string) (Sight, error)
	// Fetch fetches a job, or returns ErrEmpty.
	Fetch(queue string, wait time.Duration) (Task, error)
	// Ack settles a fetched job.
	Ack(handle string) error
	// Close closes the connection without a word.
	Close() error
}

// Driver is how the tests speak one protocol.
type Driver struct {
	// Name is the protocol's.
	Name string
	// New makes the dialect.
	New func(s Settings) dialect.Dialect
	// Client makes a client, handshake included.
	Client func(conn net.Conn) (Client, error)
	// Hello does the handshake on a connection that is then used with raw bytes; it
	// may be nil. It returns a reader of what follows.
	Hello func(conn net.Conn) (*bufio.Reader, error)
	// Push and Fetch return the bytes of a request.
	Push  func(queue, body string) []byte
	Fetch func(queue string, wait time.Duration) []byte
	// ReadReply reads one whole reply and reports whether it tells success.
	ReadReply func(r *bufio.Reader) (ok bool, err error)
	// AnyBytes says that Push takes any bytes for a body, not only JSON.
	AnyBytes bool
	// Show returns what the body of a fetched Task is if plain bytes were pushed
	// through another protocol; nil: the bytes.
	Show func(body string) string
	// Seen returns what another protocol is shown of a body that was pushed through this
	// one; nil: the body.
	Seen func(body string) string
	// ShowPacked returns what the body of a fetched Task is if one MessagePack value that is
	// no string was put through another protocol; nil: its bytes.
	ShowPacked func(raw string) string
	// Abilities are what its clients can say, End where its exhausted jobs are.
	Abilities Abilities
	End       End
	// Alone says that nobody else can settle what its workers hold.
	Alone bool
	// SumsUp says that a Sight's delayed, held and dead are those of the whole namespace.
	SumsUp bool
	// Keeps says that a settled job is kept as done until its time to live ends.
	Keeps bool
}

// Drivers returns the drivers of all protocols.
func Drivers() []Driver {
	return []Driver{
		Masenko(), Workq(), Lmstfy(), Faktory(), Tarantool(), TarantoolLegacy(), Tarantool15(),
		Beanstalkd(), Rest(),
	}
}

func (d *Driver) hello(conn net.Conn) (*bufio.Reader, error) {
	if d.Hello == nil {
		return bufio.NewReader(conn), nil
	}
	return d.Hello(conn)
}
