package api

import (
	"cmp"
	"reflect"
	"slices"
	"strings"

	"millrace/internal/auth"
)

// Route is one call of the API. The table of all of them is what httpapi serves and what the OpenAPI document is made
// of: comments and tags of the types that a route names say the rest.
type Route struct {
	ID           string // of the operation in the document, and of what handles it
	Method, Path string
	Role         auth.Role // that a caller needs
	Tag          string
	Summary      string
	About        string // what the summary has no room for

	// Query are structs whose fields are the parameters: by their tag query, or else by their name in JSON.
	Query []any
	Less  []string // parameters of Query that this call does not have
	In    any      // what a request holds; nil: nothing
	Out   any      // what the answer holds; nil: nothing
	Media string   // of an answer that is not JSON
	OK    int      // the code of success; 200 if it is zero
	Gives string   // what the answer is
	// Refuses are the codes of refusals, besides those that follow from the rest of the route.
	Refuses  []int
	Location bool // the answer has that header
	// Routine calls are daily work: they are not logged one by one.
	Routine bool
	// Anywhere tells that every node of a cluster answers it, not only the leader.
	Anywhere bool
}

// Lines are requests and answers of JSON lines, each of which is one of these.
type Lines []any

// Elsewhere names a type that another package has.
type Elsewhere string

// MediaLines is the media type of JSON lines.
const MediaLines = "application/x-ndjson"

// Handler serves a call of the table.
type Handler struct {
	MaxBody int64 // bytes of a request
	Handle  func(*Call) error
}

// Param is a parameter of the query of a call: a field of a struct.
type Param struct {
	Name  string
	Of    reflect.Type
	Field reflect.StructField
}

// Params returns the parameters of the query.
func (r *Route) Params() []Param {
	var list []Param
	for _, q := range r.Query {
		of := reflect.TypeOf(q)
		for f := range of.Fields() {
			inJSON, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name := cmp.Or(f.Tag.Get("query"), inJSON); name != "" && !slices.Contains(r.Less, name) {
				list = append(list, Param{name, of, f})
			}
		}
	}
	return list
}

// PathParts are the names in paths.
type PathParts struct {
	// The namespace, written as a queue is.
	Namespace string `path:"namespace"`
	// The queue, percent-encoded: a slash in its name is written %2F. The names . and .. and /, which would get lost in
	// a path, are written ~. and ~.. and ~%2F here. A name that is one of them after some ~ gets one ~ more: ~. is
	// written ~~. here.
	Queue string `path:"queue"`
	Job   uint64 `path:"id" api:"minimum=1"` // the id of the job
	Bulk  string `path:"bulk"`               // the id of the bulk action
	Batch uint64 `path:"batch"`              // the id of the batch
	Cron  string `path:"name"`               // the name of the cron entry
	Token string `path:"token"`              // the id of the token
	Node  string `path:"node"`               // the name of the node
	// The name of the import, which the client makes up.
	Import string `path:"import" api:"minLength=1 maxLength=64 pattern=^[A-Za-z0-9_-]+$"`
	// A name of the server that the jobs come from.
	Source string `path:"source" api:"pattern=^[A-Za-z0-9._:@/+-]{1,200}$"`
}

// The parameters of calls that no other type describes.
type (
	inQueue struct {
		Queue string `query:"queue"` // the queue of the job; it need not be named, but is quicker
	}
	ofNamespace struct {
		Namespace string `query:"namespace"` // only this one
	}
	// batchesOf has the parameter that a list of batches cannot do without.
	batchesOf struct {
		Namespace string `query:"namespace" api:"required"` // the namespace
	}
	failuresOf struct {
		Namespace string `query:"namespace"` // only this one
		Queue     string `query:"queue"`     // only this one, of the namespace
	}
	slotLength struct {
		// Length of a slot: 10s is the last hour, 1m the last day, 1h the last month.
		Resolution string `query:"resolution" api:"enum=10s|1m|1h default=10s"`
	}
	lately struct {
		Period string `query:"period" api:"enum=hour|day|month default=hour"` // how far back
	}
	since struct {
		Period string `query:"period" api:"enum=hour|day|month"` // without one: since the server was started
	}
	ofType struct {
		Type string `query:"type"` // of the jobs
	}
	nextCount struct {
		Count int `query:"count" api:"minimum=1 maximum=1000 default=5"` // how many runs
	}
	verbosely struct {
		Verbose bool `query:"verbose"` // list what was looked at
	}
)
