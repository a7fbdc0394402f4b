package api

import (
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Filter says which jobs are meant. Everything that is set must fit.
type Filter struct {
	Namespace string   `json:"namespace,omitempty"`                           // only this one
	Queue     string   `json:"queue,omitempty"`                               // only this one
	States    []string `json:"states,omitempty" query:"state" api:"is=State"` // any of these; none is all
	Type      string   `json:"type,omitempty"`                                // exactly this type
	// An id, in our own form or in that of a protocol, or a key. Of several jobs of a namespace with one key it is the
	// oldest.
	Ref string `json:"ref,omitempty"`
	// A part of the type or message of a failure, in upper or lower case, or how it failed.
	Error string `json:"error,omitempty"`
	Body  string `json:"body,omitempty"`  // a part of the body, exactly
	Batch uint64 `json:"batch,omitempty"` // jobs of this batch
	// Running jobs of this holder, as a lease and a worker show it.
	Holder string     `json:"holder,omitempty"`
	After  *time.Time `json:"after,omitempty"`  // not before this time
	Before *time.Time `json:"before,omitempty"` // before this time
	// The time that after and before mean: when it was pushed, when it entered its state, or when it is due.
	Time string `json:"time,omitempty" api:"enum=created|since|run_at default=created"`
}

// FilterOf reads a filter from the query of a URL. Other parameters are left alone.
func FilterOf(query url.Values) (Filter, error) {
	f := Filter{
		Namespace: query.Get("namespace"), Queue: query.Get("queue"), Type: query.Get("type"), Ref: query.Get("ref"),
		Error: query.Get("error"), Body: query.Get("body"), Holder: query.Get("holder"), Time: query.Get("time"),
	}
	for _, list := range query["state"] {
		for name := range strings.SplitSeq(list, ",") {
			if name != "" {
				f.States = append(f.States, name)
			}
		}
	}
	if text := query.Get("batch"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return f, Invalid("batch: %q is no number", text)
		}
		f.Batch = n
	}
	var err error
	if f.After, err = timeOf(query, "after"); err != nil {
		return f, err
	}
	if f.Before, err = timeOf(query, "before"); err != nil {
		return f, err
	}
	return f, nil
}

func timeOf(query url.Values, name string) (*time.Time, error) {
	text := query.Get(name)
	if text == "" {
		return nil, nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return nil, Invalid("%s: %q is no time: write it like 2006-01-02T15:04:05Z", name, text)
	}
	t = t.UTC()
	return &t, nil
}

// Query is the inverse of FilterOf.
func (f *Filter) Query() url.Values {
	q := url.Values{}
	set := func(name, text string) {
		if text != "" {
			q.Set(name, text)
		}
	}
	set("namespace", f.Namespace)
	set("queue", f.Queue)
	set("state", strings.Join(f.States, ","))
	set("type", f.Type)
	set("ref", f.Ref)
	set("error", f.Error)
	set("body", f.Body)
	set("holder", f.Holder)
	set("time", f.Time)
	if f.Batch != 0 {
		set("batch", strconv.FormatUint(f.Batch, 10))
	}
	if f.After != nil {
		set("after", f.After.Format(time.RFC3339Nano))
	}
	if f.Before != nil {
		set("before", f.Before.Format(time.RFC3339Nano))
	}
	return q
}

// String shows the filter in the log.
func (f *Filter) String() string {
	if text := f.Query().Encode(); text != "" {
		return text
	}
	return "everything"
}
