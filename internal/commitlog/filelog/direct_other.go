//go:build !linux

package filelog

import "github.com/cockroachdb/pebble/v2/vfs"

// direct returns the file as it is: not every system lets one be written past its page cache.
func direct(f vfs.File) vfs.File { return f }
