package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
)

//go:embed static
var staticFiles embed.FS

// asset is a file that pages load.
type asset struct {
	kind    string // its media type
	plain   []byte
	zipped  []byte // nil if it is not worth it
	version string // of its content, for its address
}

// assets are all of them by name.
type assets map[string]*asset

// loadAssets reads and compresses what is embedded.
func loadAssets() assets {
	all := make(assets)
	err := fs.WalkDir(staticFiles, "static", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(staticFiles, name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(text)
		a := &asset{kind: mime.TypeByExtension(path.Ext(name)), plain: text, version: hex.EncodeToString(sum[:6])}
		if a.kind == "" {
			a.kind = "text/plain; charset=utf-8"
		}
		if z := zip(text, gzip.BestCompression); len(z) < len(text) {
			a.zipped = z
		}
		all[strings.TrimPrefix(name, "static/")] = a
		return nil
	})
	if err != nil {
		panic("web: the embedded files cannot be read: " + err.Error()) // they are part of the program
	}
	return all
}

func zip(text []byte, level int) []byte {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, level)
	if err != nil {
		panic("web: cannot compress: " + err.Error()) // the level is one of gzip's
	}
	_, _ = w.Write(text) // a buffer takes everything
	_ = w.Close()
	return b.Bytes()
}

// link returns the address of an asset below the prefix. It changes with the content.
func (a assets) link(name string) string {
	found, ok := a[name]
	if !ok {
		panic("web: a page wants the file " + name + ", which is not there")
	}
	return "/static/" + name + "?v=" + found.version
}

// asset serves a file. Its address names its version, so it may be kept for long.
func (h *handler) asset(w http.ResponseWriter, r *http.Request) {
	a, ok := h.assets[r.PathValue("name")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	head := w.Header()
	head.Set("Content-Type", a.kind)
	head.Set("Cache-Control", "no-cache")
	if r.URL.Query().Get("v") == a.version {
		head.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	write(w, r, http.StatusOK, a.plain, a.zipped)
}

// write sends a text, compressed if there is such a form and the client takes it.
func write(w http.ResponseWriter, r *http.Request, status int, plain, zipped []byte) {
	head := w.Header()
	head.Add("Vary", "Accept-Encoding")
	if zipped != nil && acceptsGzip(r) {
		head.Set("Content-Encoding", "gzip")
		plain = zipped
	}
	w.WriteHeader(status)
	_, _ = w.Write(plain) // nobody to tell
}

func acceptsGzip(r *http.Request) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, weight, _ := strings.Cut(part, ";")
		if strings.TrimSpace(name) == "gzip" {
			weight = strings.ReplaceAll(weight, " ", "")
			return weight != "q=0" && weight != "q=0.0"
		}
	}
	return false
}
