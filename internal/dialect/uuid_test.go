package dialect

import (
	"strings"
	"testing"

	"millrace/internal/job"
)

func TestUUIDText(t *testing.T) {
	t.Parallel()
	const text = "6ba7b810-9dad-11d1-80b4-00c04fd430c4"
	for _, s := range []string{text, strings.ToUpper(text)} {
		u, ok := ParseUUID(s)
		if !ok || u.String() != text {
			t.Errorf("ParseUUID(%q) = %s, %v", s, u, ok)
		}
		if v, ok := ParseUUID([]byte(s)); !ok || v != u {
			t.Errorf("the bytes of %q are %s, %v", s, v, ok)
		}
	}
	for _, s := range []string{
		"", text[1:], text + "0", "6ba7b810-9dad-11d1-80b4-00c04fd430cg", "6ba7b8109-dad-11d1-80b4-00c04fd430c4",
		"6ba7b810x9dad-11d1-80b4-00c04fd430c4", strings.ReplaceAll(text, "-", ""),
		"6ba7b810-9dad-11d1-80b4-00c04fd430\x00\xff",
	} {
		if u, ok := ParseUUID(s); ok {
			t.Errorf("ParseUUID(%q) = %s", s, u)
		}
	}
}

func TestUUIDOfJob(t *testing.T) {
	t.Parallel()
	for want, job := range map[string]struct {
		queue uint32
		id    job.ID
	}{
		"6d696c6c-0000-8000-8100-000000000001": {1, 1},
		"6d696c6c-1234-8567-8800-000000abcdef": {0x12345678, 0xabcdef},
		"6d696c6c-ffff-8fff-8f1f-ffffffffffff": {1<<32 - 1, 1<<53 - 1},
	} {
		u := UUIDOf(job.queue, job.id)
		if u.String() != want {
			t.Errorf("job %d of queue %d is shown as %s, want %s", job.id, job.queue, u, want)
		}
		if queue, id, ok := u.Job(); !ok || queue != job.queue || id != job.id {
			t.Errorf("%s is job %d of queue %d, %v", u, id, queue, ok)
		}
	}
	for _, s := range []string{
		"00000000-0000-0000-0000-000000000000", "6d696c6c-0000-8000-9000-000000000001",
		"6d696c6c-0000-4000-8000-000000000001",
		"6d696c6d-0000-8000-8000-000000000001",
	} {
		u, ok := ParseUUID(s)
		if !ok {
			t.Fatalf("%q is not a UUID", s)
		}
		if _, id, ok := u.Job(); ok {
			t.Errorf("%s is taken for job %d", s, id)
		}
	}
}
