package api

import (
	"net/http/httptest"
	"strings"
	"testing"
)

// What does not fit is told by the names of the API: none of Go's.
func TestMisread(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		into     any
		in, want string
	}{
		{new(PushRequest), `{"jobs":[{"retry":"three"}]}`, "jobs.retry: it is a string: send a whole number"},
		{new(PushRequest), `{"jobs":{}}`, "jobs: it is an object: send an array"},
		{new(PushRequest), `{"jobs":[{"type":7}]}`, "jobs.type: it is a number: send a string"},
		{new(PushRequest), `{"jobs":[{"body_text":[]}]}`, "jobs.body_text: it is an array: send a string"},
		{new(PushRequest), `{"jobs":[{"body_base64":7}]}`, "jobs.body_base64: it is a number: send a string in base64"},
		{new(PushRequest), `{"jobs":[{"body_base64":"?"}]}`, "jobs.body_base64: this is not in base64"},
		{new(PushRequest), `{"jobs":[{"delay_seconds":"1s"}]}`, "jobs.delay_seconds: it is a string: send a number"},
		{new(PushRequest), `{"jobs":[{"run_at":"noon"}]}`, `jobs.run_at: "noon" is no time: write it like ` +
			"2006-01-02T15:04:05Z"},
		{new(PushRequest), `{"jobs":[{"run_at":7}]}`, `jobs.run_at: a time is a string: write it like ` +
			`"2006-01-02T15:04:05Z"`},
		{new(NewCron), `{"queue":"q","job":{"run_at":"noon"}}`, `job.run_at: "noon" is no time: write it like ` +
			"2006-01-02T15:04:05Z"},
		{new(BulkRequest), `{"filter":{"after":"noon"}}`, `filter.after: "noon" is no time: write it like ` +
			"2006-01-02T15:04:05Z"},
		{new(PushRequest), `[]`, "the JSON is an array: send an object"},
		{new(PushRequest), `{"jobs":[{"colour":"red"}]}`, `there is no field "colour" here`},
		{new(PushRequest), `{"jobs":[`, "the JSON cannot be read: it ends too early"},
		{new(PushRequest), `{"jobs":x}`, "the JSON cannot be read at byte 9: invalid character 'x' looking for " +
			"beginning of value"},
		{new(ActRequest), `{"attempts":-1}`, "attempts: it is the number -1: send a whole number from 0 to 4294967295"},
		{new(FailRequest), `{"queue":true}`, "queue: it is true or false: send a string"},
		{new(Limits), `{"concurrency":1.5}`, "concurrency: it is the number 1.5: send a whole number " +
			"from 0 to 4294967295"},
		{new(Fairness), `{"weights":{"a":"b"}}`, "weights: it is a string: send a whole number from 0 to 4294967295"},
		{new(TokenLimits), `{"reads":1} {}`, "the JSON is followed by something else"},
	} {
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/", strings.NewReader(tt.in))
		r.Header.Set("Content-Type", "application/json")
		err := (&Call{R: r}).Decode(tt.into)
		if p, ok := err.(*Problem); !ok || p.Detail != tt.want { //nolint:errorlint // it is one
			t.Errorf("%s: %v, want %q", tt.in, err, tt.want)
		}
	}
}
