package dialecttest

import (
	"bufio"
	"errors"
	"net"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/engine"
)

// ErrEmpty is what Client.Fetch returns when there was no job in time.
var ErrEmpty = errors.New("no job")

// Settings are what the tests ask of a dialect.
type Settings struct {
	Engine       *engine.Engine
	Namespace    string
	MaxCommand   int // most bytes of one command or line
	WriteTimeout time.Duration
}

// Task is a fetched job.
type Task struct {
	Handle string // whatever Ack wants
	Body   string // as JSON
}

// Client is a well-behaved client on one connection.
type Client interface {
	// Push pushes a job whose body is the given JSON.
	Push(queue, body string) error
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
	// Keeps says that a settled job is kept as done until its time to live ends.
	Keeps bool
	// ReturnsUnwritten says that a delivery that could not be written is taken
	// back, which a protocol behind net/http may not be able to do.
	ReturnsUnwritten bool
}

// Drivers returns the drivers of all protocols.
func Drivers() []Driver {
	return []Driver{Masenko(), Workq(), Lmstfy(), Faktory(), Tarantool(), Tarantool15()}
}

func (d *Driver) hello(conn net.Conn) (*bufio.Reader, error) {
	if d.Hello == nil {
		return bufio.NewReader(conn), nil
	}
	return d.Hello(conn)
}
