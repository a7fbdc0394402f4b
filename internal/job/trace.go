package job

import "strings"

// traceLength is that of a traceparent of the only version there is.
const traceLength = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")

// ParseTrace returns a traceparent if a text is one that is of use; else nothing, as the W3C recommendation wants it.
// Later versions may say more behind the same beginning.
func ParseTrace(text string) string {
	if len(text) < traceLength || text[:2] == "ff" || text[:2] == "00" && len(text) > traceLength ||
		len(text) > traceLength && text[traceLength] != '-' {
		return ""
	}
	trace := "00" + text[2:traceLength]
	for i := range len(trace) {
		c := trace[i]
		if isDash := i == 2 || i == 35 || i == 52; isDash && c != '-' || !isDash && (c < '0' || c > '9') &&
			(c < 'a' || c > 'f') {
			return ""
		}
	}
	if strings.Trim(trace[3:35], "0") == "" || strings.Trim(trace[36:52], "0") == "" ||
		strings.Trim(text[:2], "0123456789abcdef") != "" {
		return ""
	}
	return trace
}
