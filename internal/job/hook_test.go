package job_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"millrace/internal/job"
)

func TestNotice(t *testing.T) {
	t.Parallel()
	at := job.TimeOf(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
	long := strings.Repeat("é", 40<<10)
	for name, c := range map[string]struct {
		kind job.BodyKind
		body string
		want map[string]any // what the notice says of the body
	}{
		"none":     {job.BodyNone, "", nil},
		"json":     {job.BodyJSON, `{"a": [1]}`, map[string]any{"body": map[string]any{"a": []any{1.0}}}},
		"args":     {job.BodyArgs, `[1]`, map[string]any{"body": []any{1.0}}},
		"no json":  {job.BodyJSON, `{`, map[string]any{"body_text": "{"}},
		"text":     {job.BodyBytes, `{"a":1}`, map[string]any{"body_text": `{"a":1}`}},
		"bytes":    {job.BodyBytes, "\xff", map[string]any{"body_base64": "/w=="}},
		"too long": {job.BodyBytes, long, nil},
		"as long as may be": {
			job.BodyBytes, strings.Repeat("x", 64<<10), map[string]any{"body_text": strings.Repeat("x", 64<<10)},
		},
		"nested as deep as may be": {
			job.BodyJSON, strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000),
			map[string]any{"body_text": strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)},
		},
	} {
		j := job.Job{
			ID: 7, Namespace: "n", Queue: "q", Type: "t", Body: []byte(c.body), BodyKind: c.kind, Created: at,
			Attempts: 3, Fails: 2,
			Failures: []job.Failure{{Message: "first"}, {Kind: job.FailedByLapse, Type: "T", Message: long}},
		}
		var got map[string]any
		if err := json.Unmarshal(job.Notice(&j, job.Killed, at.Add(time.Second)), &got); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := map[string]any{
			"event": "died", "reason": "killed", "namespace": "n", "queue": "q", "id": 7.0, "type": "t",
			"created": "2030-01-02T03:04:05Z", "died": "2030-01-02T03:04:06Z", "attempts": 3.0, "failures": 2.0,
			"error":      map[string]any{"kind": "lapse", "type": "T", "message": long[:4<<10]},
			"body_bytes": float64(len(c.body)),
		}
		maps.Copy(want, c.want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
