package api

// The sizes of pages.
const (
	PageDefault = 50
	PageMax     = 200
)

// PageOf says which part of a list is wanted.
type PageOf struct {
	// The next of the page before. It belongs to one list and one filter. Without it the list begins.
	Cursor string `query:"cursor"`
	Limit  int    `query:"limit" api:"minimum=1 maximum=200 default=50"` // most entries of the page
}
