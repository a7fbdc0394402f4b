package schedule_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/internal/schedule"
)

// form shows a moment as the clocks of its zone do.
const form = "2006-01-02 15:04:05 -0700"

func parse(t *testing.T, text, zone string) (schedule.Schedule, *time.Location) {
	t.Helper()
	s, err := schedule.Parse(text, zone)
	if err != nil {
		t.Fatal(err)
	}
	loc, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	return s, loc
}

// TestNext states the rules, by what is due after a moment.
func TestNext(t *testing.T) {
	for _, c := range []struct{ text, zone, after, want string }{
		{"*/15 * * * *", "", "2026-11-17 10:07:30 +0000", "10:15:00, 10:30:00, 10:45:00"},
		{"*/20 * * * * *", "", "2026-11-17 10:07:30.5 +0000", "10:07:40, 10:08:00, 10:08:20"},
		{"@every 90s", "", "2026-11-17 10:07:30 +0000", "10:09:00, 10:10:30"},
		{"@hourly", "Asia/Kathmandu", "2026-11-17 10:07:30 +0545", "11:00:00, 12:00:00"},
		{"@daily", "", "2026-12-30 10:00:00 +0000", "2026-12-31 00:00:00, 2027-01-01 00:00:00"},
		{"0 9 * * MON-FRI", "Asia/Kathmandu", "2026-11-20 10:00:00 +0545", "2026-11-23 09:00:00 +0545"},
		{
			"0 0 13 * FRI", "", "2026-11-01 00:00:00 +0000",
			"2026-11-06 00:00:00, 2026-11-13 00:00:00, 2026-11-20 00:00:00",
		},
		{"0 0 29 2 *", "", "2096-02-29 00:00:00 +0000", "2104-02-29 00:00:00"},
		{"0 0 31 * *", "", "2026-01-31 00:00:00 +0000", "2026-03-31 00:00:00, 2026-05-31 00:00:00"},
		{"CRON_TZ=Asia/Tokyo 30 4 * * *", "Asia/Tokyo", "2026-11-17 10:00:00 +0900", "2026-11-18 04:30:00 +0900"},

		// New York goes from 01:59:59 -0500 to 03:00:00 -0400, and from 01:59:59 -0400 to 01:00:00 -0500.
		{
			"30 2 * * *", "America/New_York", "2026-03-07 12:00:00 -0500",
			"2026-03-08 03:00:00 -0400, 2026-03-09 02:30:00 -0400",
		},
		{
			"*/20 2 * * *", "America/New_York", "2026-03-08 01:00:00 -0500",
			"2026-03-08 03:00:00 -0400, 2026-03-09 02:00:00 -0400",
		},
		{
			"0 3 * * *", "America/New_York", "2026-03-08 01:00:00 -0500",
			"2026-03-08 03:00:00 -0400, 2026-03-09 03:00:00 -0400",
		},
		{
			"30 * * * *", "America/New_York", "2026-03-08 01:00:00 -0500",
			"01:30:00 -0500, 03:30:00 -0400, 04:30:00 -0400",
		},
		{
			"30 1 * * *", "America/New_York", "2026-10-31 12:00:00 -0400",
			"2026-11-01 01:30:00 -0400, 2026-11-02 01:30:00 -0500",
		},
		{
			"30 * * * *", "America/New_York", "2026-11-01 01:00:00 -0400",
			"01:30:00 -0400, 01:30:00 -0500, 02:30:00 -0500",
		},
		{"30 1 * * *", "America/New_York", "2026-11-01 01:10:00 -0500", "2026-11-02 01:30:00 -0500"},
		{
			"@every 45m", "America/New_York", "2026-11-01 01:00:00 -0400",
			"01:45:00 -0400, 01:30:00 -0500, 02:15:00 -0500",
		},

		// Lord Howe moves by half an hour: 01:59:59 +1030 to 02:30:00 +1100, and 01:59:59 +1100 to 01:30:00 +1030.
		{
			"15 2 * * *", "Australia/Lord_Howe", "2026-10-03 12:00:00 +1030",
			"2026-10-04 02:30:00 +1100, 2026-10-05 02:15:00 +1100",
		},
		{
			"*/15 * * * *", "Australia/Lord_Howe", "2026-10-04 01:40:00 +1030",
			"01:45:00 +1030, 02:30:00 +1100, 02:45:00 +1100",
		},
		{
			"45 1 * * *", "Australia/Lord_Howe", "2026-04-04 12:00:00 +1100",
			"2026-04-05 01:45:00 +1100, 2026-04-06 01:45:00 +1030",
		},
		{
			"45 * * * *", "Australia/Lord_Howe", "2026-04-05 01:00:00 +1100",
			"01:45:00 +1100, 01:45:00 +1030, 02:45:00 +1030",
		},

		// Apia left out the whole 30th of December 2011, and Troll moves by two hours.
		{
			"0 12 * * *", "Pacific/Apia", "2011-12-29 11:00:00 -1000",
			"2011-12-29 12:00:00 -1000, 2011-12-31 00:00:00 +1400, 2011-12-31 12:00:00 +1400",
		},
		{
			"0 0 30 12 *", "Pacific/Apia", "2011-12-01 00:00:00 -1000",
			"2011-12-31 00:00:00 +1400, 2012-12-30 00:00:00 +1400",
		},
		{"0 */2 * * *", "Antarctica/Troll", "2026-03-29 00:30:00 +0000", "03:00:00 +0200, 04:00:00 +0200"},
		{
			"30 2 * * *", "Antarctica/Troll", "2026-10-24 12:00:00 +0200",
			"2026-10-25 02:30:00 +0200, 2026-10-26 02:30:00 +0000",
		},
		// Havana and Beirut change at midnight.
		{
			"@daily", "America/Havana", "2026-03-07 12:00:00 -0500",
			"2026-03-08 01:00:00 -0400, 2026-03-09 00:00:00 -0400",
		},
		{"@daily", "Asia/Beirut", "2026-10-24 12:00:00 +0300", "2026-10-25 00:00:00 +0200, 2026-10-26 00:00:00 +0200"},
	} {
		t.Run(c.text+" "+c.zone, func(t *testing.T) {
			s, zone := parse(t, c.text, c.zone)
			after, err := time.Parse(form, c.after)
			if err != nil {
				t.Fatal(err)
			}
			for want := range strings.SplitSeq(c.want, ", ") {
				next, ok := s.Next(after)
				if got := next.In(zone).Format(form); !ok || !strings.Contains(got, want) {
					t.Fatalf("after %s comes %s, want %s", after.In(zone).Format(form), got, want)
				}
				after = next
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ text, zone, want string }{
		{"", "", "empty"},
		{"* * * *", "", "fields"},
		{"60 * * * *", "", "above maximum"},
		{"@sometimes", "", "@sometimes"},
		{"@every", "", "@every"},
		{"@every soon", "", "length of time"},
		{"@every 500ms", "", "whole seconds"},
		{"@every 1500ms", "", "whole seconds"},
		{"@every -5s", "", "whole seconds"},
		{"0 0 30 2 *", "", "never due"},
		{"0 0 31 4,6,9,11 *", "", "never due"},
		{"@daily", "Mars/Olympus", "unknown time zone"},
		{"@daily", "Local", "unknown time zone"},
		{"@daily", "../etc/passwd", "unknown time zone"},
		{"@daily", "Europe/./Berlin", "unknown time zone"},
		{"TZ=Europe//Berlin @daily", "", "unknown time zone"},
		{"TZ=", "", "empty"},
		{"TZ=Asia/Tokyo @daily", "Asia/Seoul", "give one of them"},
		{strings.Repeat("1,", 200) + "1 * * * *", "", "at most"},
	} {
		if _, err := schedule.Parse(c.text, c.zone); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q in %q: %v, want %q", c.text, c.zone, err, c.want)
		}
	}
}

func TestCount(t *testing.T) {
	at := func(s string) time.Time {
		v, err := time.Parse(time.DateTime, "2026-11-17 "+s)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, c := range []struct {
		text, due, upTo string
		limit, n        uint64
		next            string
	}{
		{"@every 10s", "10:00:00", "10:00:00", 9, 1, "10:00:10"},
		{"@every 10s", "10:00:00", "10:00:25", 9, 3, "10:00:30"},
		{"@every 10s", "10:00:00", "10:05:05", 9, 9, "10:05:10"},
		{"*/5 * * * *", "10:00:00", "10:14:59", 9, 3, "10:15:00"},
		{"*/5 * * * *", "10:00:00", "12:14:59", 9, 9, "12:15:00"},
	} {
		s, _ := parse(t, c.text, "")
		n, next, ok := s.Count(at(c.due), at(c.upTo), c.limit)
		if n != c.n || !ok || !next.Equal(at(c.next)) {
			t.Errorf("%s from %s to %s: %d and then %s, want %d and %s", c.text, c.due, c.upTo, n, next, c.n, c.next)
		}
	}
}

// TestAgainstClocks watches a clock minute by minute around every kind of change, and compares.
func TestAgainstClocks(t *testing.T) {
	zones := []struct{ name, day string }{
		{"America/New_York", "2026-03-08"},
		{"America/New_York", "2026-11-01"},
		{"Australia/Lord_Howe", "2026-10-04"},
		{"Australia/Lord_Howe", "2026-04-05"},
		{"Antarctica/Troll", "2026-03-29"},
		{"Antarctica/Troll", "2026-10-25"},
		{"America/Havana", "2026-03-08"},
		{"America/Havana", "2026-11-01"},
		{"Pacific/Apia", "2011-12-30"},
		{"Asia/Kathmandu", "1986-01-01"},
		{"Asia/Pyongyang", "2018-05-05"},
	}
	rng := rand.New(rand.NewPCG(7, 11))
	pick := func(from ...string) string { return from[rng.IntN(len(from))] }
	for range 80 {
		z := zones[rng.IntN(len(zones))]
		text := fmt.Sprintf("%s %s * * %s", pick("0", "*", "*/7", "30", "15,45", "59", "1-3"),
			pick("*", "*/2", "0", "1", "2", "3", "0-4", "1,2", "23", "0-23"), pick("*", "*", "SUN", "1-6"))
		s, zone := parse(t, text, z.name)
		day, err := time.ParseInLocation(time.DateOnly, z.day, time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		from, to := day.Add(-36*time.Hour), day.Add(60*time.Hour)
		got := []time.Time{}
		for at, ok := s.Next(from); ok && !at.After(to); at, ok = s.Next(at) {
			got = append(got, at)
		}
		if want := watch(text, zone, from, to); !slices.Equal(got, want) {
			t.Fatalf("%q in %s from %s:\n got %v\nwant %v", text, z.name, from, got, want)
		}
	}
}

// watch returns when a schedule is due by looking at a clock once a minute.
func watch(text string, zone *time.Location, from, to time.Time) []time.Time {
	every, err := schedule.Parse(text, "")
	if err != nil {
		panic(err)
	}
	named := func(wall time.Time) bool { // UTC has no changes
		next, ok := every.Next(wall.Add(-time.Second))
		return ok && next.Equal(wall)
	}
	allHours := slices.Contains([]string{"*", "0-23"}, strings.Fields(text)[1])
	shown := func(t time.Time) time.Time {
		_, offset := t.In(zone).Zone()
		return t.Add(time.Duration(offset) * time.Second)
	}
	due := []time.Time{}
	seen := shown(from)
	for t := from.Add(time.Minute); !t.After(to); t = t.Add(time.Minute) {
		wall := shown(t)
		is := named(wall)
		if !allHours {
			is = is && wall.After(seen)
			for left := seen.Add(time.Minute); left.Before(wall); left = left.Add(time.Minute) {
				is = is || named(left)
			}
		}
		if is {
			due = append(due, t)
		}
		if wall.After(seen) {
			seen = wall
		}
	}
	return due
}
