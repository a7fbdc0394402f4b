package cli

import (
	"testing"
	"time"
)

func TestTexts(t *testing.T) {
	t.Parallel()
	past := time.Now().Add(-90 * time.Second)
	for _, c := range []struct{ got, want string }{
		{sizeText(1), "1 byte"},
		{sizeText(1023), "1023 bytes"},
		{sizeText(1536), "1.5 KiB"},
		{sizeText(1 << 50), "1024.0 TiB"},
		{span(-time.Second), "0s"},
		{span(59 * time.Second), "59s"},
		{span(61 * time.Second), "1m1s"},
		{span(90 * time.Minute), "1h30m"},
		{span(49 * time.Hour), "2d1h"},
		{since(nil), ""},
		{since(&past), "1m30s"},
		{shorten("  a\x00b\nc  ", 9), "a?b c"},
		{shorten("abcdef", 4), "abc…"},
		{plural(1, "job"), "1 job"},
		{plural(uint64(0), "job"), "0 jobs"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}
