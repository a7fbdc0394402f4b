package tarantool

import "time"

// century is what the queue module takes for ever: 100 years.
const century = 100 * 365 * 24 * time.Hour

// seconds converts a number of seconds, and reports the century and more as century.
func seconds(f float64) time.Duration {
	switch {
	case f >= century.Seconds():
		return century
	case f <= -century.Seconds():
		return -century
	default:
		return time.Duration(f * float64(time.Second))
	}
}
