package tarantool

// SetListSize sets the bound of answers that list all tubes.
func (d *Dialect) SetListSize(n int) { d.listSize = n }
