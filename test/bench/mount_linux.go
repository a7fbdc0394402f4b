package main

import "syscall"

// mountSmall puts a small file system at dir, and returns how to take it away.
func mountSmall(dir string) (unmount func(), err error) {
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=512m"); err != nil {
		return nil, err
	}
	return func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) }, nil // the directory is removed next, which tells
}
