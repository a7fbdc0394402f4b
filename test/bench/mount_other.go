//go:build !linux

package main

import "errors"

// mountSmall fails: a file system in memory, of a size of its own, is Linux's.
func mountSmall(string) (unmount func(), err error) { return nil, errors.ErrUnsupported }
