package dialect

import "bytes"

// A web page can make a browser connect to any port and send a request, and what it puts into the body reaches a
// protocol that passes over the lines before it. So the connection ends at the first sign that the peer is a browser.

// httpVersion is how the first line of every HTTP/1 request ends, except for the digit of the version.
const httpVersion = " HTTP/1."

// hostHeader begins the one header that every HTTP/1.1 request has.
const hostHeader = "host:"

// IsForeign reports whether a line, without its LF, is one of HTTP or the beginning of a TLS handshake: the first line
// of a request, whatever its method, or its Host header. A TLS handshake may hold lines that a web page has chosen.
func IsForeign(line []byte) bool {
	if isHandshake(line) {
		return true
	}
	line = bytes.TrimSuffix(line, []byte{'\r'})
	if n := len(line) - 1; n >= len(httpVersion) && '0' <= line[n] && line[n] <= '9' &&
		bytes.HasSuffix(line[:n], []byte(httpVersion)) {
		return true
	}
	return len(line) >= len(hostHeader) && bytes.EqualFold(line[:len(hostHeader)], []byte(hostHeader))
}

// isHandshake reports whether bytes begin as a TLS record that holds a handshake does.
func isHandshake(in []byte) bool { return len(in) >= 2 && in[0] == 0x16 && in[1] == 0x03 }
