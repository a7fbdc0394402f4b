package api

import (
	"net/url"
	"strings"
)

// mark begins a segment of a path that stands for a name that would not arrive otherwise.
const mark = "~"

// PathSegment writes a name as one segment of a path of the API. Names that would get lost get a mark. So do those that
// are one of them after some marks, so that no two names are written alike.
func PathSegment(name string) string {
	if isLost(strings.TrimLeft(name, mark)) {
		name = mark + name
	}
	return url.PathEscape(name)
}

// NameIn reads the name that a segment, already unescaped, stands for.
func NameIn(segment string) string {
	if name, ok := strings.CutPrefix(segment, mark); ok && isLost(strings.TrimLeft(name, mark)) {
		return name
	}
	return segment
}

// isLost reports whether a name gets lost as a segment. Clients, proxies and our router take dots out of a path,
// encoded or not, and the router takes a slash for the end of a path, although it is encoded.
func isLost(name string) bool { return isDots(name) || name == "/" }

func isDots(segment string) bool { return segment == "." || segment == ".." }

// HasDots reports whether a path, still escaped, has a segment that the router would take out.
func HasDots(path string) bool {
	for segment := range strings.SplitSeq(path, "/") {
		if isDots(segment) {
			return true
		}
	}
	return false
}
