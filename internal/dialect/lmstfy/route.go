package lmstfy

import (
	"net/http"
	"strings"

	"millrace/internal/dialect"
)

// route is one of the calls of the public API.
type route uint8

const (
	routeNone route = iota // no such call
	routePublish
	routeBulk
	routeRepublish
	routeConsume
	routeDelete
	routePeek
	routePeekJob
	routeSize
	routeDestroy
	routeDead
	routeRespawn
	routeDropDead
	routeDeadSize

	routeCount = int(routeDeadSize) + 1
)

// routeInfo is what is known about a route besides its handler.
type routeInfo struct {
	// name is what the route is called where commands are counted.
	name   string
	method string
	// path is the pattern, which is also the route's name in the metrics.
	path string
	// open routes need no token.
	open bool
	// side is what a limit of the token bounds.
	side side
}

var routes = [routeCount]routeInfo{
	routePublish: {name: "publish", method: http.MethodPut, path: "/api/:namespace/:queue", side: sideWrite},
	routeBulk: {
		name: "publish_bulk", method: http.MethodPut,
		path: "/api/:namespace/:queue/bulk", side: sideWrite,
	},
	routeRepublish: {name: "republish", method: http.MethodPut, path: "/api/:namespace/:queue/job/:job_id"},
	routeConsume:   {name: "consume", method: http.MethodGet, path: "/api/:namespace/:queue", side: sideRead},
	routeDelete:    {name: "delete", method: http.MethodDelete, path: "/api/:namespace/:queue/job/:job_id"},
	routePeek:      {name: "peek", method: http.MethodGet, path: "/api/:namespace/:queue/peek"},
	routePeekJob:   {name: "peek_job", method: http.MethodGet, path: "/api/:namespace/:queue/job/:job_id"},
	routeSize:      {name: "size", method: http.MethodGet, path: "/api/:namespace/:queue/size", open: true},
	routeDestroy:   {name: "destroy", method: http.MethodDelete, path: "/api/:namespace/:queue"},
	routeDead:      {name: "peek_deadletter", method: http.MethodGet, path: "/api/:namespace/:queue/deadletter"},
	routeRespawn:   {name: "respawn_deadletter", method: http.MethodPut, path: "/api/:namespace/:queue/deadletter"},
	routeDropDead:  {name: "delete_deadletter", method: http.MethodDelete, path: "/api/:namespace/:queue/deadletter"},
	routeDeadSize: {
		name: "deadletter_size", method: http.MethodGet,
		path: "/api/:namespace/:queue/deadletter/size", open: true,
	},
}

// newCommands makes the table of the commands: the routes.
func newCommands() *dialect.Commands {
	var names [routeCount]string
	for i := range routes {
		names[i] = routes[i].name
	}
	return dialect.NewCommands(names[:]...)
}

// target is what the path of a request names. The texts are parts of the path.
type target struct {
	route     route
	namespace string
	queue     string
	id        string
}

const apiPrefix = "/api/"

// parsePath finds the route of a request. Paths are exact: a slash at the end makes
// another path. What stands for a name may be empty, which no name is.
func parsePath(method, path string) (t target) {
	rest, ok := strings.CutPrefix(path, apiPrefix)
	if !ok {
		return t
	}
	t.namespace, rest, ok = strings.Cut(rest, "/")
	if !ok {
		return t
	}
	var deeper bool
	t.queue, rest, deeper = strings.Cut(rest, "/")
	switch {
	case !deeper && t.queue == "":
	case !deeper:
		t.route = byMethod(method, routePublish, routeConsume, routeDestroy)
	case rest == "bulk":
		t.route = byMethod(method, routeBulk, routeNone, routeNone)
	case rest == "peek":
		t.route = byMethod(method, routeNone, routePeek, routeNone)
	case rest == "size":
		t.route = byMethod(method, routeNone, routeSize, routeNone)
	case rest == "deadletter":
		t.route = byMethod(method, routeRespawn, routeDead, routeDropDead)
	case rest == "deadletter/size":
		t.route = byMethod(method, routeNone, routeDeadSize, routeNone)
	case strings.HasPrefix(rest, "job/"):
		t.id = rest[len("job/"):]
		if t.id != "" && strings.IndexByte(t.id, '/') < 0 {
			t.route = byMethod(method, routeRepublish, routePeekJob, routeDelete)
		}
	}
	return t
}

// byMethod picks the route of a path; routeNone where it has none for the method.
func byMethod(method string, put, get, del route) route {
	switch method {
	case http.MethodPut:
		return put
	case http.MethodGet:
		return get
	case http.MethodDelete:
		return del
	}
	return routeNone
}

// nameMax is the length of the longest namespace and queue name in bytes.
const nameMax = 255

// checkNames returns the error text for names that are not allowed; empty if they
// are. Only a consumer may name several queues, and any that other protocols could
// have made.
func checkNames(t *target) string {
	long := len(t.queue) > nameMax
	if t.route == routeConsume {
		long = hasLongItem(t.queue)
	}
	switch {
	case long || len(t.namespace) > nameMax:
		return textNameTooLong
	case !validName(t.namespace, false):
		return textNamespace
	case !validName(t.queue, t.route == routeConsume):
		return textQueue
	case t.queue[0] == '_' && t.route != routeConsume:
		return textQueue
	}
	return ""
}

func hasLongItem(list string) bool {
	for list != "" {
		var name string
		name, list, _ = strings.Cut(list, ",")
		if len(name) > nameMax {
			return true
		}
	}
	return false
}

// validName reports whether a name is at least one of letters, digits, hyphens and
// underscores, and in a list commas.
func validName(name string, list bool) bool {
	for i := range len(name) {
		if c := name[i]; !nameByte(c) && (!list || c != ',') {
			return false
		}
	}
	return name != ""
}

func nameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}

// appendQueues appends the names of a list, without empty ones.
func appendQueues(names []string, list string) []string {
	for list != "" {
		var name string
		name, list, _ = strings.Cut(list, ",")
		if name != "" {
			names = append(names, name)
		}
	}
	return names
}
