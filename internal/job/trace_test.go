package job_test

import (
	"testing"

	"millrace/internal/job"
)

func TestParseTrace(t *testing.T) {
	t.Parallel()
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for text, want := range map[string]string{
		good: good, "cc" + good[2:] + "-what-the-future-will-be-like": good, "cc" + good[2:]: good,
		"": "", good + "-x": "", "ff" + good[2:]: "", good[:54]: "",
		"00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01": "",
		"00-00000000000000000000000000000000-b7ad6b7169203331-01": "",
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01": "",
		"00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01": "", "zz" + good[2:]: "", "cc" + good[2:] + ".": "",
	} {
		if got := job.ParseTrace(text); got != want {
			t.Errorf("%q is %q", text, got)
		}
	}
}
