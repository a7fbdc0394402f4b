package web

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// number shows a count with its thousands apart.
func number(n any) string {
	text := fmt.Sprint(n)
	digits := strings.TrimPrefix(text, "-")
	var b strings.Builder
	b.WriteString(text[:len(text)-len(digits)])
	for i, c := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(c)
	}
	return b.String()
}

// rate shows how much happens in a second.
func rate(f float64) string {
	switch {
	case f == 0:
		return "0"
	case f < 0.1:
		return "<0.1"
	case f < 100:
		return strconv.FormatFloat(f, 'f', 1, 64)
	}
	return number(int64(math.Round(f)))
}

// span shows a length of time in its two largest units.
func span(seconds float64) string {
	switch {
	case seconds < 0:
		return "-" + span(-seconds)
	case seconds < 0.0005:
		return "0 s"
	case seconds < 1:
		return strconv.FormatFloat(seconds*1000, 'f', 0, 64) + " ms"
	case seconds < 60:
		return strconv.FormatFloat(seconds, 'f', 0, 64) + " s"
	case seconds > 100*365*86400:
		return "more than 100 years"
	}
	s := int64(seconds)
	units := []struct {
		name string
		size int64
	}{{"d", 86400}, {"h", 3600}, {"min", 60}, {"s", 1}}
	for i, u := range units[:3] {
		if s < u.size {
			continue
		}
		out := strconv.FormatInt(s/u.size, 10) + " " + u.name
		if rest := s % u.size / units[i+1].size; rest > 0 && s/u.size < 100 {
			out += " " + strconv.FormatInt(rest, 10) + " " + units[i+1].name
		}
		return out
	}
	return strconv.FormatInt(s, 10) + " s"
}

// size shows a number of bytes.
func size(n uint64) string {
	if n < 1<<10 {
		return strconv.FormatUint(n, 10) + " B"
	}
	f, unit := float64(n)/(1<<10), "KiB"
	for _, next := range []string{"MiB", "GiB", "TiB", "PiB"} {
		if f < 1<<10 {
			break
		}
		f, unit = f/(1<<10), next
	}
	return strconv.FormatFloat(f, 'f', 1, 64) + " " + unit
}

// since tells how long ago or ahead an instant is.
func since(now, at time.Time) string {
	d := now.Sub(at).Seconds()
	switch {
	case d >= 0 && d < 1, d < 0 && d > -1:
		return "now"
	case d < 0:
		return "in " + span(-d)
	}
	return span(d) + " ago"
}

// stamp shows an instant for machines, clock for people.
func stamp(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) }
func clock(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05") + " UTC" }

// plural shows a count of things.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return number(n) + " " + many
}
