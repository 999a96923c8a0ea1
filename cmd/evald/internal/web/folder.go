package web

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"

	"github.com/evald/evald/cmd/evald/internal/standalone"
	"github.com/evald/evald/engine/puzzle"
)

// policy of a page without a server. A browser refuses frame-ancestors in a page, and the manifest
// and workers have directives of their own.
const policy = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'"

const manifest = `{
  "name": "evald", "short_name": "evald", "start_url": "./", "scope": "./", "display": "standalone",
  "description": "Play Connect Four and games like it, and see what a network, a search and an exact solver think of each move.",
  "icons": [{ "src": "ui/icon.svg", "sizes": "any", "type": "image/svg+xml" }]
}
`

// folder is what the page must know of a folder without a server (page/engine.js).
type folder struct {
	Version string            `json:"version"` // the hash of all files without this text
	Files   map[string]string `json:"files"`   // the names of large files
	Config  any               `json:"config"`  // the answer to the question config
	Game    any               `json:"game"`    // the empty board
}

// Folder returns the files of the page without a server, by their paths in a folder: any server of
// files can offer it, at any address. engine is a folder's evald.wasm and wasm_exec.js; networks are
// the files of the engine's networks. The same arguments give the same files.
func Folder(ctx context.Context, engine standalone.Engine, networks map[string][]byte) (map[string][]byte, error) {
	pages, err := load()
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{"manifest.webmanifest": []byte(manifest), "ui/wasm_exec.js": engine.Exec}
	for name, f := range pages {
		files[strings.TrimPrefix(name, "/")] = f.content
	}
	for _, name := range []string{"", "ui/sw.js", "ui/cluster.js", "ui/uplot.js", "ui/uplot.css"} {
		delete(files, name)
	}
	lazy := map[string][]byte{"engine": engine.Wasm, "puzzles": puzzle.Shipped()}
	for name, file := range networks {
		if lazy[name], err = packed(file); err != nil {
			return nil, err
		}
	}
	about := folder{Files: map[string]string{}}
	small := slices.Sorted(maps.Keys(files))
	for name, file := range lazy {
		about.Files[name] = fmt.Sprintf("%s-%s.gz", name, tagOf(file))
		files["ui/"+about.Files[name]] = file
	}
	answers, err := standalone.New(func(name string) ([]byte, error) { return networks[name], nil })
	if err != nil {
		return nil, err
	}
	if about.Config, err = answers.Ask(ctx, "config", nil, nil); err != nil {
		return nil, err
	}
	if about.Game, err = answers.Ask(ctx, "game", []byte(`{"position":"7x6x4:-"}`), nil); err != nil {
		return nil, err
	}
	small = append(small, "index.html", "./")
	if files["index.html"], err = index(pages["/"].content, about); err != nil {
		return nil, err
	}
	all := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintln(all, name, tagOf(files[name]))
	}
	about.Version = hex.EncodeToString(all.Sum(nil)[:8])
	if files["index.html"], err = index(pages["/"].content, about); err != nil {
		return nil, err
	}
	var later []string
	for _, name := range about.Files {
		later = append(later, "ui/"+name)
	}
	slices.Sort(later)
	settings, err := json.Marshal([]any{about.Version, small, later})
	if err != nil {
		return nil, err
	}
	files["sw.js"] = slices.Concat([]byte("const [version, files, lazy] = "), settings, []byte(";\n"), pages["/ui/sw.js"].content)
	return files, nil
}

// index returns the page with the policy and the settings of a folder.
func index(page []byte, about folder) ([]byte, error) {
	text, err := json.Marshal(about) // which escapes <
	if err != nil {
		return nil, err
	}
	local := strings.ReplaceAll(string(page), `"/ui/`, `"ui/`)
	return []byte(strings.Replace(local, "<title>", `<meta http-equiv="Content-Security-Policy" content="`+policy+`">
<link rel="manifest" href="manifest.webmanifest">
<script type="application/json" id="evald-engine">`+string(text)+`</script>
<title>`, 1)), nil
}

func tagOf(file []byte) string {
	sum := sha256.Sum256(file)
	return hex.EncodeToString(sum[:8])
}

// packed compresses a file, unless it is compressed.
func packed(file []byte) ([]byte, error) {
	if bytes.HasPrefix(file, []byte{0x1f, 0x8b}) {
		return file, nil
	}
	var to bytes.Buffer
	z, err := gzip.NewWriterLevel(&to, gzip.BestCompression)
	if err == nil {
		_, err = z.Write(file)
	}
	if err == nil {
		err = z.Close()
	}
	return to.Bytes(), err
}
