package record

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"millrace/internal/job"
)

// A body with a trace is of the second version, and one without is what it always was.
func TestBodyTrace(t *testing.T) {
	t.Parallel()
	want := job.Job{
		BodyKind: job.BodyBytes, Origin: 4, Type: "type", Extra: []byte("x"), Trace: "trace",
		Body: []byte("body"),
	}
	b := AppendBody(nil, &want)
	got := job.Job{Trace: "another"}
	if err := DecodeBody(b, &got); err != nil || b[0] != 2 {
		t.Fatalf("%x: %v", b, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	want.Trace = ""
	if b = AppendBody(nil, &want); b[0] != 1 {
		t.Errorf("%x", b)
	}
	if err := DecodeBody(b, &got); err != nil || got.Trace != "" {
		t.Errorf("%q: %v", got.Trace, err)
	}
}
