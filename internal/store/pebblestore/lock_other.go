//go:build !unix

package pebblestore

import (
	"errors"
	"io"
)

func readLock(string) (io.Closer, error) {
	return nil, errors.New("this system has no locks for readers")
}
