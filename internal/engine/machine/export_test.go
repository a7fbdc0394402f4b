package machine

// CheckInPortions is Check with so many locks and batches looked at in one go.
func (m *Machine) CheckInPortions(n int) error { return m.check(n, n) }
