package dialect

import "errors"

// What ends or interrupts a read, besides the errors of the network.
var (
	// ErrLineTooLong means that a line is longer than the limit. What has been
	// received of it is still buffered; the rest was not read.
	ErrLineTooLong = errors.New("line too long")
	// ErrBlockTooLong means that a block longer than the limit was asked for.
	ErrBlockTooLong = errors.New("block too long")
	// ErrBusy means that all connections together have received more that is not whole
	// yet than they may (Shared).
	ErrBusy = errors.New("too much unfinished input on all connections")
	// ErrSlow means that a command has not arrived as a whole in time (Shared).
	ErrSlow = errors.New("a command did not arrive in time")
	// ErrTimeout means that the connection's read deadline has passed.
	ErrTimeout = errors.New("nothing received in time")
	// ErrDraining means that the server is stopping and nothing complete is buffered.
	ErrDraining = errors.New("the server is stopping")
	// ErrForeign means that the peer speaks another protocol, such as HTTP: it may be a browser, and
	// what it sends may be chosen by a web page.
	ErrForeign = errors.New("the peer speaks another protocol, such as HTTP")
	// ErrWoken means that Wake was called; the read may be repeated.
	ErrWoken = errors.New("woken")
)

// errFinished means that the request being awaited is done, errFull that no
// more input may be collected. Both stay inside Await.
var (
	errFinished = errors.New("request finished")
	errFull     = errors.New("input buffer full")
)
