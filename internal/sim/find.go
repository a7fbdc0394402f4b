package sim

import (
	"cmp"
	"slices"

	"millrace/internal/job"
)

// find returns the job that a reference names, nil if there is none. An id alone names
// only jobs with a number. Of several with one key it is the oldest that fits, else the oldest; among those that fit a
// verb about leases the one leased longest counts as the oldest.
func (m *Model) find(ref job.Ref, leases bool, fits func(*entry) bool) *entry {
	named := m.sorted(func(j *entry) bool {
		return matches(j, ref) && (!alone(ref) || j.Flags.Has(job.FlagNumbered))
	})
	if leases { // only leased ones fit
		slices.SortStableFunc(named, func(a, b *entry) int { return cmp.Compare(a.Entered, b.Entered) })
	}
	for _, j := range named {
		if fits(j) {
			return j
		}
	}
	if len(named) > 0 {
		return slices.MinFunc(named, func(a, b *entry) int { return cmp.Compare(a.ID, b.ID) })
	}
	return nil
}

// matches reports whether a reference names a job. Nobody sees a tombstone.
func matches(j *entry, ref job.Ref) bool {
	if j.Flags.Has(job.FlagTombstone) || j.Namespace != ref.Namespace || ref.Queue != "" && j.Queue != ref.Queue {
		return false
	}
	switch ref.Kind {
	case job.RefID:
		return j.ID == ref.ID
	case job.RefKey:
		return ref.Key != "" && j.Key == ref.Key
	case job.RefSerial:
		return j.Flags.Has(job.FlagSerial) && j.Serial == ref.Serial
	case job.RefNumber:
		return j.Flags.Has(job.FlagNumbered) && j.ID.Number() == ref.Number && (ref.ID == 0 || j.ID == ref.ID)
	case job.RefPlace:
		return j.QueueNum == ref.QueueNum && j.ID == ref.ID
	}
	return false
}

// alone reports whether a reference is an id without a queue.
func alone(ref job.Ref) bool { return ref.Kind == job.RefID && ref.Queue == "" }

// settle finds the job of a settling verb and asks of it what the verb needs.
// With free, a verb that needs nothing is not bound by an exclusive lease.
func (m *Model) settle(ref job.Ref, by job.Holder, need job.Need, free bool, in job.States) (*entry, *job.Error) {
	check := func(j *entry) *job.Error {
		leased := j.State == job.Leased
		switch {
		case !in.Allow(j.State):
			return job.ErrBadState
		case (need == job.NeedHeld || need == job.NeedLeased) && !leased:
			return job.ErrNotLeased
		case need == job.NeedHeld && j.Lease.Holder != by:
			return job.ErrNotOwner
		case need == job.NeedUnfinished && j.State.Finished():
			return job.ErrFinished
		case need == job.NeedFree && leased && j.Lease.Holder != by:
			return job.ErrNotOwner
		case leased && j.Lease.Exclusive && j.Lease.Holder != by && (need != job.NeedAny || !free):
			return job.ErrNotOwner
		}
		return nil
	}
	j := m.heldAlone(ref, by)
	if j == nil {
		j = m.find(ref, need == job.NeedHeld || need == job.NeedLeased, func(j *entry) bool { return check(j) == nil })
	}
	if j == nil {
		return nil, job.ErrNotFound
	}
	return j, check(j)
}

// heldAlone returns the job that a reference by number or by id alone names although it
// was not pushed as one with a number: a holder may name so what it holds.
func (m *Model) heldAlone(ref job.Ref, by job.Holder) *entry {
	if ref.Kind != job.RefNumber && !alone(ref) || by == (job.Holder{}) {
		return nil
	}
	for _, j := range m.boundTo(by) {
		named := j.ID.Number() == ref.Number
		if ref.ID != 0 || alone(ref) {
			named = j.ID == ref.ID
		}
		if named && matches(j, job.ByID(ref.Namespace, ref.Queue, j.ID)) {
			return j
		}
	}
	return nil
}
