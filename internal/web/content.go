package web

import (
	"encoding/hex"
	"strings"

	"millrace/internal/api"
)

// contentView is a body or result in one of the forms that fit it.
type contentView struct {
	Size  int
	As    string // json, decoded, text or hex
	Forms []string
	Text  string
	Cut   bool // only the beginning is here
}

const (
	textShown = 256 << 10 // bytes of a formatted text
	hexShown  = 8 << 10   // bytes of a body as hex
)

// viewOf shows a content as it was asked to, or in the first form that fits.
func viewOf(c *api.Content, as string) *contentView {
	if c == nil {
		return nil
	}
	v := &contentView{Size: c.Size, Cut: c.Truncated}
	if c.JSON != nil {
		v.Forms = append(v.Forms, "json")
	}
	if c.Decoded != nil {
		v.Forms = append(v.Forms, "decoded")
	}
	if c.JSON != nil || c.Text != nil {
		v.Forms = append(v.Forms, "text")
	}
	v.Forms = append(v.Forms, "hex")
	v.As = v.Forms[0]
	for _, form := range v.Forms {
		if form == as {
			v.As = form
		}
	}
	var cut bool
	switch v.As {
	case "json":
		v.Text, cut = indent(c.JSON)
	case "decoded":
		v.Text = *c.Decoded
		cut = strings.HasSuffix(v.Text, "\n…")
	case "text":
		v.Text, cut = cutText(c.Base64)
	default:
		v.Text, cut = hexDump(c.Base64)
	}
	v.Cut = v.Cut || cut
	return v
}

func cutText(b []byte) (text string, cut bool) {
	if len(b) > textShown {
		return strings.ToValidUTF8(string(b[:textShown]), ""), true
	}
	return string(b), false
}

// indent lays out JSON, which is known to be valid, and stops when the text gets too long: with deep nesting its
// indentation can be hundreds of times as long as itself, and json.Indent would write all of it.
func indent(b []byte) (text string, cut bool) {
	var out strings.Builder
	depth, quoted := 0, false
	newline := func() {
		out.WriteByte('\n')
		for range depth {
			out.WriteString("  ")
		}
	}
	for i := 0; i < len(b); i++ {
		if out.Len() > textShown {
			return strings.ToValidUTF8(out.String(), ""), true
		}
		c := b[i]
		switch {
		case quoted:
			out.WriteByte(c)
			if c == '\\' {
				i++
				out.WriteByte(b[i])
			}
			quoted = c != '"'
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
		case c == '{' || c == '[':
			out.WriteByte(c)
			if next := skipSpace(b, i+1); next < len(b) && (b[next] == '}' || b[next] == ']') {
				out.WriteByte(b[next])
				i = next
				continue
			}
			depth++
			newline()
		case c == '}' || c == ']':
			depth--
			newline()
			out.WriteByte(c)
		case c == ',':
			out.WriteByte(c)
			newline()
		case c == ':':
			out.WriteString(": ")
		default:
			quoted = c == '"'
			out.WriteByte(c)
		}
	}
	return out.String(), false
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// hexDump shows bytes sixteen to a line, with their offset and what of them is text.
func hexDump(b []byte) (text string, cut bool) {
	return hex.Dump(b[:min(len(b), hexShown)]), len(b) > hexShown
}
