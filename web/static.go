package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"path"
	"strings"
	"sync"
)

//go:embed static
var staticFiles embed.FS

// asset is a file that browsers keep for ever: its address changes with it.
type asset struct {
	address       string // below the base
	kind          string
	plain, packed []byte
}

var assets = sync.OnceValue(func() map[string]asset {
	all := map[string]asset{}
	kinds := map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
	files, _ := staticFiles.ReadDir("static") // embedded
	for _, f := range files {
		text, _ := staticFiles.ReadFile("static/" + f.Name())
		var packed bytes.Buffer
		w, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression)
		_, _ = w.Write(text)
		_ = w.Close()
		sum := sha256.Sum256(text)
		ext := path.Ext(f.Name())
		address := "/static/" + strings.TrimSuffix(f.Name(), ext) + "." + hex.EncodeToString(sum[:6]) + ext
		all[f.Name()] = asset{address, kinds[ext], text, packed.Bytes()}
	}
	return all
})

// serveStatic answers a request for a static file, for which nobody need sign in.
func serveStatic(w http.ResponseWriter, r *http.Request, path string) bool {
	if !strings.HasPrefix(path, "/static/") || r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	for _, a := range assets() {
		if a.address != path {
			continue
		}
		h, text := w.Header(), a.plain
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
		h.Set("Content-Type", a.kind)
		h.Set("Vary", "Accept-Encoding")
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			h.Set("Content-Encoding", "gzip")
			text = a.packed
		}
		_, _ = w.Write(text)
		return true
	}
	return false
}
