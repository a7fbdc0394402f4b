package schedule

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	_ "time/tzdata" // a machine without a database of time zones is no reason to refuse one

	"github.com/robfig/cron/v3"
)

// Schedule is a schedule that has been read. The zero value is never due.
type Schedule struct {
	every  time.Duration // of "@every"; zero: the fields say when
	fields cron.SpecSchedule
	zone   *time.Location
}

// parser reads five fields, six with seconds first, and names such as @hourly.
var parser = cron.NewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month |
	cron.Dow | cron.Descriptor)

// everyHour is an hour field that names every hour. Above the hours is the library's mark for a star.
const everyHour = 1<<24 - 1

// star is the library's mark of a day field that is a star: then only the other day field counts.
const star = 1 << 63

// MaxText is the longest text of a schedule, in bytes.
const MaxText = 256

// Parse reads a schedule. An empty zone is UTC. A schedule that is never due is refused.
func Parse(text, zone string) (Schedule, error) {
	if len(text) > MaxText {
		return Schedule{}, fmt.Errorf("a schedule has at most %d bytes", MaxText)
	}
	text = strings.TrimSpace(text)
	if named, rest, ok := cutZone(text); ok {
		if zone != "" && zone != named {
			return Schedule{}, fmt.Errorf("the schedule names the time zone %s, but the entry names %s: give one of "+
				"them", named, zone)
		}
		text, zone = rest, named
	}
	loc, err := loadZone(zone)
	if err != nil {
		return Schedule{}, err
	}
	s := Schedule{zone: loc}
	if length, ok := strings.CutPrefix(text, "@every "); ok {
		s.every, err = parseEvery(strings.TrimSpace(length))
		return s, err
	}
	read, err := parser.Parse(text)
	if err != nil {
		return Schedule{}, fmt.Errorf("schedule %q: %w", text, err)
	}
	fields, ok := read.(*cron.SpecSchedule)
	if !ok {
		return Schedule{}, fmt.Errorf("schedule %q is not understood", text)
	}
	s.fields = *fields
	if _, ok := s.firstFrom(time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)); !ok {
		return Schedule{}, fmt.Errorf("schedule %q is never due: no month has such a day", text)
	}
	return s, nil
}

// cutZone cuts off a zone that the text begins with, as TZ=Asia/Tokyo or CRON_TZ=Asia/Tokyo.
func cutZone(text string) (zone, rest string, ok bool) {
	for _, prefix := range []string{"CRON_TZ=", "TZ="} {
		if after, found := strings.CutPrefix(text, prefix); found {
			zone, rest, _ = strings.Cut(after, " ")
			return zone, strings.TrimSpace(rest), true
		}
	}
	return "", "", false
}

// The limits of "@every".
const (
	minEvery = time.Second
	maxEvery = 10 * 365 * 24 * time.Hour
)

func parseEvery(length string) (time.Duration, error) {
	d, err := time.ParseDuration(length)
	switch {
	case err != nil:
		return 0, fmt.Errorf("@every %q: want a length of time such as 90s or 1h30m", length)
	case d < minEvery || d > maxEvery || d%time.Second != 0:
		return 0, fmt.Errorf("@every %s: want whole seconds, from 1s to 10 years", length)
	}
	return d, nil
}

// zones has the first zonesMax zones that have been read. The tz database has fewer, but some file systems know each of
// them by many names.
var (
	zones      sync.Map // string → *time.Location
	zonesKnown atomic.Int64
)

const zonesMax = 1000

func loadZone(name string) (*time.Location, error) {
	if name == "" {
		return time.UTC, nil
	}
	if known, ok := zones.Load(name); ok {
		if loc, ok := known.(*time.Location); ok {
			return loc, nil
		}
	}
	loc, err := time.LoadLocation(name)
	if err == nil && (name == "Local" || path.Clean(name) != name) {
		err = errors.New("the zone of the machine, or a path of a file such as Europe/./Berlin, is not " +
			"the same everywhere")
	}
	if err != nil {
		return nil, fmt.Errorf("unknown time zone %q: want a name of the tz database such as Europe/Berlin", name)
	}
	if zonesKnown.Load() < zonesMax {
		if _, known := zones.LoadOrStore(name, loc); !known {
			zonesKnown.Add(1)
		}
	}
	return loc, nil
}

// Next returns when the schedule is due first after a time, in UTC. It reports false if that is never.
//
// "@every" counts from the time given. The fields mean what a clock on the wall shows:
//   - A schedule that does not name every hour is due once for each time that it names. A time that the clocks leave
//     out
//     is due when they are put forward, and a time that they show twice is due the first time.
//   - A schedule that names every hour is due whenever the clock shows a time that it names: not at all for times that
//     are left out, and twice for those that are shown twice.
func (s Schedule) Next(after time.Time) (time.Time, bool) {
	switch {
	case s.zone == nil:
		return time.Time{}, false
	case s.every > 0:
		return after.Add(s.every).UTC(), true
	case s.fields.Hour&everyHour == everyHour:
		return s.nextShown(after)
	}
	wall := s.wall(after)
	for {
		next, ok := s.firstFrom(wall.Add(time.Second))
		if !ok {
			return time.Time{}, false
		}
		if at := s.first(next); at.After(after) {
			return at, true
		}
		wall = next // shown a second time
	}
}

// Count returns how often the schedule is due from a time at which it is due up to another, at most limit, and when it
// is due next after that other time; ok is false if that is never.
func (s Schedule) Count(due, upTo time.Time, limit uint64) (n uint64, next time.Time, ok bool) {
	if s.every > 0 {
		n = uint64(max(upTo.Sub(due)/s.every, 0)) + 1
		return min(n, limit), due.Add(time.Duration(n) * s.every).UTC(), true //nolint:gosec // a quotient of durations
	}
	for next, ok = due, true; ok && !next.After(upTo); next, ok = s.Next(next) {
		if n++; n >= limit {
			next, ok = s.Next(upTo)
			return n, next, ok
		}
	}
	return n, next, ok
}

// wall returns what a clock shows, in whole seconds, as if that were UTC.
func (s Schedule) wall(t time.Time) time.Time {
	_, offset := t.In(s.zone).Zone()
	return t.UTC().Truncate(time.Second).Add(time.Duration(offset) * time.Second)
}

// widest is more than any clock has ever differed from UTC.
const widest = 16 * time.Hour

// first returns when a clock shows a time first, or would have if it had not been put forward over it.
func (s Schedule) first(wall time.Time) time.Time {
	at := wall.Add(-widest).In(s.zone)
	for {
		_, offset := at.Zone()
		start, end := at.ZoneBounds()
		shown := wall.Add(-time.Duration(offset) * time.Second)
		switch {
		case !start.IsZero() && shown.Before(start):
			return start.UTC()
		case end.IsZero() || shown.Before(end):
			return shown
		}
		at = end
	}
}

// nextShown returns when a clock shows a time that the schedule names first after another.
func (s Schedule) nextShown(after time.Time) (time.Time, bool) {
	at, wall := after.In(s.zone), s.wall(after).Add(time.Second)
	for {
		next, ok := s.firstFrom(wall)
		if !ok {
			return time.Time{}, false
		}
		_, offset := at.Zone()
		_, end := at.ZoneBounds()
		if t := next.Add(-time.Duration(offset) * time.Second); end.IsZero() || t.Before(end) {
			return t, true
		}
		at, wall = end, s.wall(end)
	}
}

// horizon is how far ahead a day is looked for: from 29 February 2096 to the next are eight years.
const horizon = 9

// firstFrom returns the first time on a clock that the fields name, from one on.
func (s Schedule) firstFrom(t time.Time) (time.Time, bool) {
	f := &s.fields
	for limit := t.Year() + horizon; t.Year() < limit; {
		switch year, month, day := t.Date(); {
		case !has(f.Month, int(month)):
			t = time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC)
		case !s.hasDay(t):
			t = time.Date(year, month, day+1, 0, 0, 0, 0, time.UTC)
		case !has(f.Hour, t.Hour()):
			t = t.Truncate(time.Hour).Add(time.Hour)
		case !has(f.Minute, t.Minute()):
			t = t.Truncate(time.Minute).Add(time.Minute)
		case !has(f.Second, t.Second()):
			t = t.Add(time.Second)
		default:
			return t, true
		}
	}
	return time.Time{}, false
}

// hasDay reports whether the fields name a day. If both the day of the month and the day of the week are given, one of
// them is enough.
func (s Schedule) hasDay(t time.Time) bool {
	dom, dow := has(s.fields.Dom, t.Day()), has(s.fields.Dow, int(t.Weekday()))
	if (s.fields.Dom|s.fields.Dow)&star != 0 {
		return dom && dow
	}
	return dom || dow
}

func has(field uint64, n int) bool { return field&(1<<n) != 0 }
