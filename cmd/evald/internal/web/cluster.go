//go:build !first

package web

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"net/http"

	"github.com/evald/evald/engine/cluster"
)

//go:embed cluster.html
var clusterPage string

// Cluster returns a handler of a read-only page about a learner and its workers, at / and below /ui/. It accepts requests of other sites'
// pages; put an origin.Policy in front of it.
func Cluster(status func() cluster.Status) (http.Handler, error) {
	files, err := load()
	if err != nil {
		return nil, fmt.Errorf("web: %w", err)
	}
	page, err := template.New("cluster").Parse(clusterPage)
	if err != nil {
		return nil, fmt.Errorf("web: %w", err)
	}
	mux := http.NewServeMux()
	for _, name := range []string{"/ui/style.css", "/ui/icon.svg", "/ui/cluster.js"} {
		mux.HandleFunc("GET "+name, files[name].serve)
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		s := status()
		var text bytes.Buffer
		err := page.Execute(&text, struct {
			cluster.Status
			Others int // workers that are not listed
		}{s, s.Heard - len(s.Workers)})
		if err != nil {
			sendError(w, err)
			return
		}
		w.Header().Set("Content-Type", mediaType("x.html"))
		_, _ = w.Write(text.Bytes()) // an error means that the client is gone
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protect(w.Header())
		mux.ServeHTTP(w, r)
	}), nil
}
