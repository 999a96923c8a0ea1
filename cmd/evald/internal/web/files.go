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
	"regexp"
	"slices"
	"strings"
	"sync"
)

//go:embed page
var page embed.FS

// file is one file of the page.
type file struct {
	content   []byte
	packed    []byte // content, compressed with gzip
	kind, tag string // media type; ETag without its quotes
}

// remark matches a line of a script that is a comment. Browsers get an empty line in its place, so
// that the page loads faster and errors still name the right lines.
var remark = regexp.MustCompile(`(?m)^[ \t]*//.*$`)

// load returns the files of the page by URL path. They are the program's own, and are prepared
// once.
var load = sync.OnceValues(func() (map[string]file, error) {
	files := map[string]file{}
	err := fs.WalkDir(page, "page", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := page.ReadFile(name)
		if path.Ext(name) == ".js" {
			content = remark.ReplaceAllLiteral(content, nil)
		}
		sum := sha256.Sum256(content)
		at := "/ui/" + path.Base(name)
		if at == "/ui/index.html" {
			at = "/"
		}
		var packed bytes.Buffer
		z, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression) // errors only for an unknown level
		_, _ = z.Write(content)
		_ = z.Close()
		files[at] = file{content, packed.Bytes(), mediaType(name), hex.EncodeToString(sum[:8])}
		return err
	})
	return files, err
})

// mediaType returns the media type of a file. It does not use package mime's table, which depends on the machine.
func mediaType(name string) string {
	kinds := map[string]string{".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
	return mime.FormatMediaType(kinds[path.Ext(name)], map[string]string{"charset": "utf-8"})
}

func (h *Handler) serveFile(w http.ResponseWriter, r *http.Request) error {
	f, ok := h.files[r.URL.Path]
	if !ok {
		return refuse(http.StatusNotFound, "", "there is no %s", cut(r.URL.Path))
	}
	f.serve(w, r)
	return nil
}

// serve answers with the file, compressed if the client accepts gzip.
func (f file) serve(w http.ResponseWriter, r *http.Request) {
	zipped := takesGzip(r.Header.Get("Accept-Encoding"))
	content, tag := f.content, `"`+f.tag+`"`
	if zipped {
		content, tag = f.packed, `"`+f.tag+`-gzip"`
	}
	w.Header().Set("Content-Type", f.kind)
	w.Header().Set("ETag", tag)
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("Vary", "Accept-Encoding")
	if slices.Contains(r.Header["If-None-Match"], tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if zipped {
		w.Header().Set("Content-Encoding", "gzip")
	}
	_, _ = w.Write(content) // an error means that the client is gone
}

// takesGzip reports whether a client's Accept-Encoding names gzip and does not refuse it with a weight of 0.
func takesGzip(accepted string) bool {
	for coding := range strings.SplitSeq(accepted, ",") {
		name, parameter, _ := strings.Cut(coding, ";")
		if strings.TrimSpace(name) == "gzip" {
			weight, weighted := strings.CutPrefix(strings.TrimSpace(parameter), "q=")
			return !weighted || strings.Trim(weight, "0.") != ""
		}
	}
	return false
}
