package web

import "net/url"

// links are the addresses of other parts of a list; empty where there is none to go to. A cursor only leads on, so
// that the way back is in the address: the cursors of the parts before, the nearest first.
type links struct {
	First    string
	Previous string
	Next     string
	Self     string // of this part
}

// trailMax is how many parts one can go back. An address must not get too long.
const trailMax = 10

// paging returns the links of a part of a list: of what was asked, only the cursor and the trail matter. The part goes
// on with the cursor next, or ends.
func paging(path string, query, asked url.Values, next string) links {
	cursor, trail := asked.Get("cursor"), asked["trail"]
	if asked.Has("from") { // a search that goes on within this part
		cursor = asked.Get("from")
	}
	trail = trail[:min(len(trail), trailMax)]
	l := links{Self: part(path, query, cursor, trail)}
	if cursor != "" {
		l.First = address(path, query)
		if len(trail) > 0 { // else it lies further back than the trail goes
			l.Previous = part(path, query, trail[0], trail[1:])
		}
	}
	if next != "" {
		l.Next = part(path, query, next, append([]string{cursor}, trail...))
	}
	return l
}

// part is the address of a part of a list.
func part(path string, query url.Values, cursor string, trail []string) string {
	q := cloneOf(query)
	if cursor != "" {
		q.Set("cursor", cursor)
		q["trail"] = trail[:min(len(trail), trailMax)]
	}
	return address(path, q)
}
