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
		"6ba7b810x9dad-11d1-80b4-00c04fd430c4", strings.ReplaceAll(text, "-", ""), "6ba7b810-9dad-11d1-80b4-00c04fd430\x00\xff",
	} {
		if u, ok := ParseUUID(s); ok {
			t.Errorf("ParseUUID(%q) = %s", s, u)
		}
	}
}

func TestUUIDOfJob(t *testing.T) {
	t.Parallel()
	for id, want := range map[job.ID]string{
		1:         "6d696c6c-7261-8365-8000-000000000001",
		0xabcdef:  "6d696c6c-7261-8365-8000-000000abcdef",
		1<<53 - 1: "6d696c6c-7261-8365-801f-ffffffffffff",
	} {
		u := UUIDOf(id)
		if u.String() != want {
			t.Errorf("job %d is shown as %s, want %s", id, u, want)
		}
		if back, ok := u.JobID(); !ok || back != id {
			t.Errorf("%s is job %d, %v", u, back, ok)
		}
	}
	for _, s := range []string{
		"00000000-0000-0000-0000-000000000000", "6d696c6c-7261-8365-9000-000000000001", "6d696c6c-7261-8364-8000-000000000001",
	} {
		u, ok := ParseUUID(s)
		if !ok {
			t.Fatalf("%q is not a UUID", s)
		}
		if id, ok := u.JobID(); ok {
			t.Errorf("%s is taken for job %d", s, id)
		}
	}
}
