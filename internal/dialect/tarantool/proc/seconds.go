package proc

import "time"

// Century is what the queue module takes for ever: 100 years.
const Century = 100 * 365 * 24 * time.Hour

// Seconds converts a number of seconds, and reports a century and more as Century.
func Seconds(f float64) time.Duration {
	switch {
	case f >= Century.Seconds():
		return Century
	case f <= -Century.Seconds():
		return -Century
	default:
		return time.Duration(f * float64(time.Second))
	}
}
