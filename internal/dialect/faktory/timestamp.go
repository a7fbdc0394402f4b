package faktory

import (
	"time"

	"millrace/internal/job"
)

// parseTime reads an RFC 3339 timestamp: upper-case T and Z, seconds, a fraction of
// whatever length (protocol section 3). The reason is empty if it is one.
func parseTime(text []byte) (at job.Time, reason string) {
	var t time.Time
	// The Go parser also takes an hour of one digit, and a comma for a point.
	if len(text) < len("2006-01-02T15:04:05Z") || text[13] != ':' || text[19] == ',' || t.UnmarshalText(text) != nil {
		return 0, textNotTime
	}
	// Times before 1970 are long past, and zero would mean none at all.
	return max(1, job.TimeOf(t)), ""
}

// appendTime appends an instant as a JSON string: UTC, without trailing zeros.
func appendTime(b []byte, t job.Time) []byte {
	b = append(b, '"')
	b = t.Std().AppendFormat(b, time.RFC3339Nano)
	return append(b, '"')
}
