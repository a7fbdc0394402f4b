package job

import (
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"
)

// Hook is what is pushed when a job of a queue dies. It belongs to the name of the queue, which need not be there.
type Hook struct {
	Namespace string
	Queue     string
	Job       Spec // to whatever namespace and queue; its body is the notice of the death
	Source    Source
}

// The limits of hooks.
const (
	MaxHooks     = 1000     // in all namespaces together
	MaxHookBytes = 8 << 10  // of one, as it is stored
	noticeBody   = 64 << 10 // of the longest body that a notice carries
	noticeText   = 4 << 10  // of the longest message
)

// Death says why a job has died.
type Death uint8

// The deaths.
const (
	Exhausted Death = iota // it has used up its tries, or what it waited for has died
	Killed                 // somebody said so
)

var (
	deathNames   = [...]string{Exhausted: "exhausted", Killed: "killed"}
	failureNames = [...]string{
		FailedByWorker: "worker", FailedByLapse: "lapse", FailedByEnd: "end",
		FailedByBlocker: "blocker",
	}
)

// notice is the body of the job that a hook pushes, as JSON.
type notice struct {
	Event     string         `json:"event"`
	Reason    string         `json:"reason"`
	Namespace string         `json:"namespace"`
	Queue     string         `json:"queue"`
	ID        ID             `json:"id"`
	Key       string         `json:"key,omitempty"`
	Type      string         `json:"type,omitempty"`
	Group     string         `json:"group,omitempty"`
	Created   string         `json:"created"`
	Died      string         `json:"died"`
	Attempts  uint32         `json:"attempts"`
	Failures  uint32         `json:"failures"`
	Error     *noticeFailure `json:"error,omitempty"`

	Body       json.RawMessage `json:"body,omitempty"`
	BodyText   string          `json:"body_text,omitempty"`
	BodyBase64 []byte          `json:"body_base64,omitempty"`
	BodyBytes  int             `json:"body_bytes"`
}

type noticeFailure struct {
	Kind    string `json:"kind"`
	Type    string `json:"type,omitempty"`
	Message string `json:"message,omitempty"`
}

// Notice tells of the death of a job, as JSON. It has the last of the job's failures. A body that is too long is left
// out.
func Notice(j *Job, how Death, now Time) []byte {
	n := notice{
		Event: "died", Reason: deathNames[how], Namespace: j.Namespace, Queue: j.Queue, ID: j.ID, Key: j.Key,
		Type: j.Type, Group: j.Group,
		Created: stamp(j.Created), Died: stamp(now), Attempts: j.Attempts, Failures: j.Fails, BodyBytes: len(j.Body),
	}
	if len(j.Failures) > 0 {
		f := &j.Failures[len(j.Failures)-1]
		n.Error = &noticeFailure{Kind: failureNames[f.Kind], Type: cut(f.Type), Message: cut(f.Message)}
	}
	switch isText := utf8.Valid(j.Body); {
	case len(j.Body) == 0 || len(j.Body) > noticeBody:
	case (j.BodyKind == BodyJSON || j.BodyKind == BodyArgs) && isText && json.Valid(j.Body):
		n.Body = j.Body
	case isText:
		n.BodyText = string(j.Body)
	default:
		n.BodyBase64 = j.Body
	}
	b, err := json.Marshal(&n)
	if n.Body != nil && (err != nil || !json.Valid(b)) { // it is nested as deep as JSON may be, and here one deeper
		n.Body, n.BodyText = nil, string(j.Body)
		b, _ = json.Marshal(&n) // of texts and numbers
	}
	return b
}

func stamp(t Time) string { return t.Std().Format(time.RFC3339Nano) }

// cut returns the beginning of a text that is too long.
func cut(s string) string {
	if len(s) > noticeText {
		s = strings.ToValidUTF8(s[:noticeText], "")
	}
	return s
}
