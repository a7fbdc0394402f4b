// Package hook calls URLs when jobs have died. The death itself pushes a job to a queue of the server, in the same
// transition; a sender takes the jobs of that queue as every worker does, and calls their URLs. So a call that was not
// confirmed is made again, by whatever server leads then, and its receiver tells repeated calls by their id.
package hook

import (
	"errors"
	"net/url"
	"strings"
	"time"

	"millrace/internal/job"
)

// Where the jobs that are calls of URLs wait.
const (
	Namespace = "millrace"
	Queue     = "hooks"
)

const (
	urlMax  = 2000 // bytes
	jobType = "hook"

	// A call is tried for a bit more than a day; then it is dead for a week, so that people can have it made after all.
	tries   = 15
	lives   = 3 * 24 * time.Hour
	deadFor = 7 * 24 * time.Hour
	deadMax = 10_000
)

// Call returns the job that is a call of a URL. Calls of one URL are made one at a time, so that one that is slow holds
// up no other.
func Call(to string, door job.Door) job.Spec {
	return job.Spec{
		Namespace: Namespace, Queue: Queue, Type: jobType, Group: to, Extra: []byte(to), Origin: door, TTL: lives,
		Policy: job.Policy{
			MaxFails: tries, Lapse: job.LapseFail, Requeue: job.PlaceTail, Due: job.PlaceTail,
			Expiry:  job.ExpireWaiting,
			Backoff: job.Backoff{Unit: time.Second, Power: 4, Jitter: 10, Base: 5 * time.Second},
			Exhaust: job.ExhaustDead, DeadFor: deadFor, DeadMax: deadMax,
		},
	}
}

// URL returns which URL a hook calls; none if it pushes a job for workers.
func URL(s *job.Spec) (to string, ok bool) {
	return string(s.Extra), s.Namespace == Namespace && s.Queue == Queue && s.Type == jobType
}

// CheckURL says why a text is no URL that can be called.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" ||
		strings.ContainsAny(text, " \t\r\n"):
		return errors.New("write for example https://example.org/dead")
	case u.User != nil:
		return errors.New("a password in it would be seen by everybody who may look: the signature tells who calls")
	case len(text) > urlMax:
		return errors.New("it is longer than 2000 bytes")
	}
	return nil
}
