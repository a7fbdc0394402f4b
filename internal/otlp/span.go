package otlp

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"millrace/internal/job"
)

type spanKind byte

const (
	spanWait spanKind = iota // from the push, or from when it was ready again, to the fetch
	spanRun                  // from the fetch to its end
)

// span is what is kept of one until it is sent.
type span struct {
	trace                 string
	kind                  spanKind
	from, to              job.Time
	how                   job.Counter
	id                    job.ID
	created               job.Time
	attempt               uint32
	namespace, queue, typ string
	door                  job.Door
}

// sampled reports whether a traceparent asks for its trace to be kept.
func sampled(trace string) bool {
	flags, err := strconv.ParseUint(trace[max(0, len(trace)-2):], 16, 8)
	return err == nil && flags&1 != 0
}

// spanID names a span of a job. It follows from the job, so that the two spans of an attempt find each other although
// another process may make the second.
func (s *span) spanID(kind spanKind) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %d %d %d", s.trace, s.id, s.created, s.attempt, kind))
	sum[0] |= 1 // zero is none
	return hex.EncodeToString(sum[:8])
}

// What follows are the messages of OTLP, as far as they are used, in its JSON form.

type request struct {
	ResourceSpans []resourceSpans `json:"resourceSpans"`
}

type resourceSpans struct {
	Resource   resource     `json:"resource"`
	ScopeSpans []scopeSpans `json:"scopeSpans"`
}

type resource struct {
	Attributes []attribute `json:"attributes"`
}

type scopeSpans struct {
	Scope scope      `json:"scope"`
	Spans []spanJSON `json:"spans"`
}

type scope struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

type spanJSON struct {
	TraceID    string      `json:"traceId"`
	SpanID     string      `json:"spanId"`
	ParentID   string      `json:"parentSpanId"`
	Name       string      `json:"name"`
	Kind       int         `json:"kind"`
	Start      string      `json:"startTimeUnixNano"`
	End        string      `json:"endTimeUnixNano"`
	Attributes []attribute `json:"attributes"`
	Links      []link      `json:"links,omitempty"`
	Status     status      `json:"status"`
}

type link struct {
	TraceID string `json:"traceId"`
	SpanID  string `json:"spanId"`
}

type status struct {
	Code    int    `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
}

type attribute struct {
	Key   string `json:"key"`
	Value value  `json:"value"`
}

type value struct {
	String *string `json:"stringValue,omitempty"`
	Int    *string `json:"intValue,omitempty"` // in JSON 64-bit numbers are text
}

const (
	kindInternal = 1
	kindConsumer = 5
	statusError  = 2
)

func text(key, v string) attribute {
	if len(v) > nameMax {
		v = v[:nameMax]
	}
	v = strings.ToValidUTF8(v, "\uFFFD")
	return attribute{key, value{String: &v}}
}

func number(key string, n uint64) attribute {
	v := strconv.FormatUint(n, 10)
	return attribute{key, value{Int: &v}}
}

// request makes the message for a batch.
func (e *Exporter) request(batch []span) request {
	spans := make([]spanJSON, 0, len(batch))
	for i := range batch {
		spans = append(spans, e.show(&batch[i]))
	}
	return request{[]resourceSpans{{
		Resource: resource{[]attribute{
			text("service.name", e.o.Service), text("service.version", e.o.Version),
			text("service.instance.id", e.o.Instance),
		}},
		ScopeSpans: []scopeSpans{{Scope: scope{"millrace", e.o.Version}, Spans: spans}},
	}}}
}

// show makes the message of a span. That of the waiting is a child of the span that pushed the job, that of the running
// one of the waiting, with a link to the push.
func (e *Exporter) show(s *span) spanJSON {
	traceID, producer := s.trace[3:35], s.trace[36:52]
	nano := func(t job.Time) string { return strconv.FormatInt(t.Std().UnixNano(), 10) }
	out := spanJSON{
		TraceID: traceID, SpanID: s.spanID(s.kind), ParentID: producer, Name: s.queue + " wait", Kind: kindInternal,
		Start: nano(s.from), End: nano(s.to),
		Attributes: []attribute{
			text("messaging.system", "millrace"), text("messaging.destination.name", s.queue),
			text("messaging.message.id", strconv.FormatUint(uint64(s.id), 10)),
			text("millrace.namespace", s.namespace), text("millrace.job.type", s.typ),
			number("millrace.job.attempt", uint64(s.attempt)),
			text("millrace.protocol", e.o.DoorName(s.door)),
		},
	}
	if s.kind == spanWait {
		return out
	}
	out.ParentID, out.Name, out.Kind = s.spanID(spanWait), s.queue+" run", kindConsumer
	out.Links = []link{{traceID, producer}}
	out.Attributes = append(out.Attributes, text("millrace.job.result", s.how.String()))
	if s.how != job.CountAcked {
		out.Status = status{statusError, "the job has " + s.how.String()}
	}
	return out
}
