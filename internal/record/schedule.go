package record

import (
	"encoding/binary"
	"time"

	"millrace/internal/job"
)

// Schedule is how a schedule stands: what changes with its ticks and its jobs.
type Schedule struct {
	Namespace string
	Name      string
	Source    job.Source
	Created   job.Time
	Paused    bool
	Next      job.Time // its timer; zero: none
	LastTick  job.Time
	LastAt    job.Time
	Pushed    uint64
	Missed    uint64
	Skipped   uint64
	Behind    uint32 // how many missed ticks in a row have been made up for
	Running   job.ID
	Runs      []job.ScheduleRun
}

// ScheduleKey appends the key of one part of a schedule. The parts are those of a batch: how it stands, and what is
// set.
func ScheduleKey(dst []byte, id job.BatchID, part BatchPart) []byte {
	return append(binary.BigEndian.AppendUint64(append(dst, spaceSchedule), uint64(id)), byte(part))
}

// AllSchedules returns the range of all parts of all schedules.
func AllSchedules() (lo, hi []byte) { return []byte{spaceSchedule}, []byte{spaceSchedule + 1} }

// ParseScheduleKey splits the key of a part of a schedule.
func ParseScheduleKey(key []byte) (id job.BatchID, part BatchPart, ok bool) {
	if len(key) != 10 || key[0] != spaceSchedule {
		return 0, 0, false
	}
	return job.BatchID(binary.BigEndian.Uint64(key[1:])), BatchPart(key[9]), true
}

// ScheduleNameKey appends the key under which a schedule is found by its name. Its value is its id.
func ScheduleNameKey(dst []byte, namespace, name string) []byte {
	return append(appendText(append(dst, spaceSchedules), namespace), name...)
}

// ScheduleNames returns the range of the names of a namespace, in their order, or of all if it is empty.
func ScheduleNames(namespace string) (lo, hi []byte) {
	if namespace == "" {
		return []byte{spaceSchedules}, []byte{spaceSchedules + 1}
	}
	return textSpan(spaceSchedules, namespace)
}

// ParseScheduleNameKey splits the key of a schedule's name.
func ParseScheduleNameKey(key []byte) (namespace, name string, ok bool) {
	return parseNamed(key, spaceSchedules)
}

// AppendSchedule appends how a schedule stands.
func AppendSchedule(dst []byte, s *Schedule) []byte {
	paused := byte(0)
	if s.Paused {
		paused = 1
	}
	dst = append(dst, scheduleVersion, paused, byte(s.Source))
	dst = appendString(dst, s.Namespace)
	dst = appendString(dst, s.Name)
	dst = binary.AppendVarint(dst, int64(s.Created))
	for _, t := range [...]job.Time{s.Next, s.LastTick, s.LastAt} {
		dst = appendSince(dst, t, s.Created)
	}
	for _, n := range [...]uint64{
		s.Pushed, s.Missed, s.Skipped, uint64(s.Behind), uint64(s.Running),
		uint64(len(s.Runs)),
	} {
		dst = binary.AppendUvarint(dst, n)
	}
	for i := range s.Runs {
		r := &s.Runs[i]
		dst = append(dst, byte(r.Kind), byte(r.Outcome), byte(r.Refused))
		for _, t := range [...]job.Time{r.Tick, r.At, r.Ended} {
			dst = appendSince(dst, t, s.Created)
		}
		dst = binary.AppendUvarint(dst, r.Count)
		dst = binary.AppendUvarint(dst, uint64(r.Job))
	}
	return dst
}

// DecodeSchedule is the inverse of AppendSchedule.
func DecodeSchedule(p []byte) (Schedule, error) {
	d := decoder{b: p}
	if err := d.version("schedule", scheduleVersion); err != nil {
		return Schedule{}, err
	}
	s := Schedule{Paused: d.byte() != 0, Source: job.Source(d.byte()), Namespace: d.text(), Name: d.text()}
	s.Created = job.Time(d.varint())
	for _, t := range [...]*job.Time{&s.Next, &s.LastTick, &s.LastAt} {
		*t = d.since(s.Created)
	}
	for _, n := range [...]*uint64{&s.Pushed, &s.Missed, &s.Skipped} {
		*n = d.uvarint()
	}
	s.Behind, s.Running = d.uint32(), job.ID(d.uvarint())
	n := d.uvarint()
	if n > uint64(len(d.b)) {
		d.fail()
		n = 0
	}
	for range n {
		r := job.ScheduleRun{Kind: job.RunKind(d.byte()), Outcome: job.Outcome(d.byte()), Refused: job.Kind(d.byte())}
		for _, t := range [...]*job.Time{&r.Tick, &r.At, &r.Ended} {
			*t = d.since(s.Created)
		}
		r.Count, r.Job = d.uvarint(), job.ID(d.uvarint())
		s.Runs = append(s.Runs, r)
	}
	return s, d.end("schedule")
}

// AppendScheduleDef appends what is set of a schedule. Of its job the batch and the blockers by place are not kept.
func AppendScheduleDef(dst []byte, s *job.Schedule) []byte {
	var bits byte
	for i, on := range [...]bool{s.Paused, s.Job.Unique} {
		if on {
			bits |= 1 << i
		}
	}
	dst = append(dst, scheduleVersion, bits, byte(s.Missed), byte(s.Overlap), byte(s.Source), byte(s.Job.LockUntil))
	for _, t := range [...]string{s.Namespace, s.Name, s.When, s.Zone, s.Job.Lock} {
		dst = appendString(dst, t)
	}
	dst = binary.AppendUvarint(dst, uint64(s.MissedMax))
	dst = binary.AppendVarint(dst, int64(s.Job.LockFor))
	return appendSpec(dst, &s.Job)
}

// DecodeScheduleDef is the inverse of AppendScheduleDef. The body shares memory with p.
func DecodeScheduleDef(p []byte) (job.Schedule, error) {
	d := decoder{b: p}
	if err := d.version("schedule definition", scheduleVersion); err != nil {
		return job.Schedule{}, err
	}
	bits := d.byte()
	s := job.Schedule{
		Paused: bits&1 != 0, Missed: job.Missed(d.byte()), Overlap: job.Overlap(d.byte()), Source: job.Source(d.byte()),
	}
	until := job.LockEnd(d.byte())
	var lock string
	for _, t := range [...]*string{&s.Namespace, &s.Name, &s.When, &s.Zone, &lock} {
		*t = d.text()
	}
	s.MissedMax = d.uint32()
	length := time.Duration(d.varint())
	s.Job = *d.spec()
	s.Job.Unique, s.Job.Lock, s.Job.LockFor, s.Job.LockUntil = bits&2 != 0, lock, length, until
	return s, d.end("schedule definition")
}
