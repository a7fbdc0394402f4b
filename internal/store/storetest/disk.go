package storetest

import (
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// Disk is a vfs.MemFS that may be cloned while it is written to. The one that Pebble has locks itself twice when a file
// is reused, and both wait for each other for ever when a clone is asked for in between.
type Disk struct{ vfs.FS }

// ReuseForWrite implements vfs.FS.
func (d Disk) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := d.Rename(oldname, newname); err != nil {
		return nil, err
	}
	return d.OpenReadWrite(newname, c)
}

// Hooked calls the injector before every operation of a Disk, unlike errorfs.Wrap also for files that are reused, which
// most logs are.
func Hooked(fsys vfs.FS, inj errorfs.Injector) vfs.FS {
	return hooked{errorfs.Wrap(Disk{fsys}, inj), inj}
}

type hooked struct {
	vfs.FS
	inj errorfs.Injector
}

func (h hooked) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := h.FS.ReuseForWrite(oldname, newname, c)
	if err != nil {
		return nil, err
	}
	return errorfs.WrapFile(file, h.inj), nil
}
