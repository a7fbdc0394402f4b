package api

import (
	"time"

	"millrace/internal/job"
)

// NameMax bounds the name of a queue, in bytes.
const NameMax = 255

// CheckName refuses a name that is too long.
func CheckName(what, name string) error {
	if len(name) > NameMax {
		return Invalid("%s is longer than %d bytes", what, NameMax)
	}
	return nil
}

// CheckQueue refuses names that no queue can have.
func CheckQueue(namespace, queue string) error {
	for _, part := range []struct{ what, name string }{{"namespace", namespace}, {"queue", queue}} {
		if part.name == "" {
			return Invalid("%s: it is missing", part.what)
		}
		if err := CheckName(part.what, part.name); err != nil {
			return err
		}
	}
	return nil
}

// DurationMax is the longest time that a request may name.
const DurationMax = 10 * 365 * 24 * time.Hour

const secondsMax = float64(DurationMax / time.Second)

// Seconds reads a time in seconds.
func Seconds(name string, n float64) (time.Duration, error) {
	if n < 0 || n > secondsMax {
		return 0, Invalid("%s: choose 0 to %.0f", name, secondsMax)
	}
	return time.Duration(n * float64(time.Second)), nil
}

// yearMax is the last year that JSON has a form for. What lies behind it never comes.
const yearMax = 9999

// Instant shows an instant; nil if there is none, or if it never comes.
func Instant(t job.Time) *time.Time {
	if t == 0 || t == job.Never {
		return nil
	}
	std := t.Std()
	if std.Year() > yearMax || std.Year() < 0 {
		return nil
	}
	return &std
}
