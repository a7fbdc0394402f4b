package store

import "errors"

// The ways in which a store refuses to open or to go on. Each is wrapped in a
// message that names the path and says what to do about it.
var (
	// ErrLocked means that another process has the data directory open.
	ErrLocked = errors.New("data directory is in use by another process")
	// ErrNewerFormat means that a newer release wrote the data directory.
	ErrNewerFormat = errors.New("data was written by a newer release")
	// ErrForeign means that the directory holds files that are not ours.
	ErrForeign = errors.New("directory holds files of something else")
	// ErrCorrupt means that stored bytes are missing or not what was written.
	ErrCorrupt = errors.New("data is damaged")
	// ErrUnwritable means that the directory cannot be created or written.
	ErrUnwritable = errors.New("data directory cannot be written")
	// ErrGone means that the data directory, or a file of it, was taken away or replaced while it was in use.
	ErrGone = errors.New("data is not there any more")
	// ErrClosed means that the store or snapshot was used after its Close.
	ErrClosed = errors.New("store is closed")
)

// AdviceError is an error with what to do about it. Whoever knows better what this store is part of can give other
// advice.
type AdviceError struct {
	Err    error
	Advice string
}

// Error tells both.
func (a *AdviceError) Error() string { return a.Err.Error() + ": " + a.Advice }

// Unwrap returns the error.
func (a *AdviceError) Unwrap() error { return a.Err }
