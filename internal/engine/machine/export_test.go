package machine

// CheckInPortions is Check with a number of locks and batches looked at in one go.
func (m *Machine) CheckInPortions(n int) error { return m.check(n, n) }
