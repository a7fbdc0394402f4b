package api

// The sizes of pages.
const (
	PageDefault = 50
	PageMax     = 200
)

// PageOf says which part of a list is wanted.
type PageOf struct {
	Cursor string // the one that came with the part before; empty is the beginning
	Limit  int    // at most so many; zero is PageDefault
}
