//go:build unix && !linux

package torture

// What cuts networks and spoils disks is made for Linux.
func (c *nodes) wire()    {}
func (c *nodes) proxies() {}
func (c *nodes) furnish() {}

// about tells what the nodes stand on.
func (c *nodes) about() string { return "three on one machine" }

var writeFaults []nodeFault
