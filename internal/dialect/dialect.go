package dialect

import (
	"context"
	"net"

	"millrace/internal/job"
)

// Dialect is one wire protocol on one engine.
type Dialect interface {
	// Name is the protocol's name in lower case, as in the configuration.
	Name() string
	// Serve accepts connections until ctx ends and returns once every connection
	// has ended. The end of ctx means drain: no new connections, replies in
	// progress are finished, idle connections are closed. Requests that wait in
	// the engine are answered by the engine's own Drain.
	Serve(ctx context.Context, l net.Listener) error
	// Stats returns the counters of connections, Commands what clients have asked for.
	Stats() ServerStats
	Commands() []CommandFigures
}

// The doors through which jobs come and go. The numbers are stored with jobs:
// they are never changed and never given to another door.
const (
	DoorNone       job.Door = iota // not known
	DoorAdmin                      // web UI, admin API and command line
	DoorFaktory                    // Faktory work protocol
	DoorWorkq                      // Workq
	DoorMasenko                    // Masenko
	DoorTarantool                  // Tarantool Queue, both APIs
	DoorLmstfy                     // LMSTFY over HTTP
	DoorBeanstalkd                 // beanstalkd
)

var doorNames = [...]string{
	DoorNone: "unknown", DoorAdmin: "api", DoorFaktory: "faktory", DoorWorkq: "workq",
	DoorMasenko: "masenko", DoorTarantool: "tarantool", DoorLmstfy: "lmstfy", DoorBeanstalkd: "beanstalkd",
}

// DoorName returns the name of a door for display.
func DoorName(d job.Door) string {
	if int(d) < len(doorNames) {
		return doorNames[d]
	}
	return doorNames[DoorNone]
}

// Custom returns the JSON object that was pushed along with a job through the operator API; nil if there is none.
func Custom(j *job.Job) []byte {
	if j.Origin != DoorAdmin || len(j.Extra) <= len("{}") || j.Extra[0] != '{' {
		return nil
	}
	return j.Extra
}
