// Package web is the web page of evald serve: a board for play against any agent, the opinions of the network, a search and the solver on
// each column, and dashboards of the running service and of training runs. A second page shows a learner and its workers (cluster.go).
// The pages are embedded and load nothing from other hosts.
//
// The page is served at /, and its other files and its API below /ui/. The server keeps no state of games: each request contains its
// position.
//
// Read the files in this order:
//
//	web.go       Config, Handler, the routes
//	files.go     the embedded files
//	request.go   the questions of package answer over HTTP
//	played.go    how often each move was played in recorded games
//	pictures.go  a position as SVG or PNG, and the file of a game
//	status.go    the state of the service
//	runs.go      training runs; curves.go: the curves of their files
//	puzzles.go   the puzzles that ship
//	folder.go    the page without a server, as files; internal/standalone is its engine
//	cluster.go   the page of a learner and its workers
//
// # Decisions
//
// Package answer answers what the page asks below /ui/, by names and JSON alone. The browser's history is the history of the
// game (page/address.js): a person's move pushes an entry, the agent's reply and a new game replace one, and Undo and Redo go to an existing
// entry, so that they agree with the browser's Back. The state of each entry has the addresses before it.
//
// All of the page's data in the browser's storage are in stores of page/storage.js, which apply
// changes to what is stored at that moment, because several tabs share it. Fields for positions
// send their text to /ui/read, so that all read the same forms.
//
// The page draws no curves of the service: Grafana does. For training runs it draws every number in the JSON lines; page/names.js has names
// for some of them.
package web

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/evald/evald/cmd/evald/internal/answer"
	"github.com/evald/evald/cmd/evald/internal/places"
	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
)

// Config of a page.
type Config struct {
	Evaluator *eval.Evaluator           // for the opinion of each column, and for the search
	Model     string                    // the evaluator's name
	Agents    agent.Shared              // networks and exact books of the agents to play against; opening books are not read
	ModelOn   func(r game.Rules) string // returns the name of the network that evaluates a game; nil: always Model
	Networks  []string                  // models that agents may use, besides heuristics and the networks of levels; other models are refused

	Metrics prometheus.Gatherer // metrics of the service; nil: none
	Games   *Games              // recorded games whose moves the explorer counts; nil: none
	Runs    string              // folder of a training run or of several; "": none

	Places *places.Places // for analyses, moves and reviews; nil: ample ones of its own
	Limits Limits
}

// Limits of requests. Zero means the default.
type Limits = answer.Limits

// Handler serves the page. The server must call Close when it shuts down. The Handler accepts requests of other sites' pages; put an
// origin.Policy in front of it.
type Handler struct {
	config           Config
	*answer.Answerer // of the questions
	mux              http.ServeMux
	files            map[string]file
	puzzles          file
	drawing          *places.Places // for pictures
	reading          *places.Places // for long requests
	runs             *os.Root       // nil: no runs
	status           memo
	read             memo // for runs

	closing context.Context
	close   context.CancelFunc
}

// New returns the handler of a page. The error names the wrong field of the Config.
func New(c Config) (*Handler, error) {
	if c.Places == nil {
		c.Places = places.ForPage(0)
	}
	h := &Handler{config: c, status: memo{answers: map[string]remembered{}}, read: memo{answers: map[string]remembered{}}}
	h.drawing = places.New(runtime.GOMAXPROCS(0))
	h.reading = places.Limited(longRequests, longRequests)
	questions := answer.Config{
		Evaluator: c.Evaluator, Model: c.Model, Agents: c.Agents, ModelOn: c.ModelOn, Networks: c.Networks,
		Service: c.Metrics != nil, Training: c.Runs != "", Places: c.Places, Limits: c.Limits,
	}
	if c.Games != nil {
		questions.Played = c.Games.moves
	}
	var err error
	if h.Answerer, err = answer.New(questions); err != nil {
		return nil, fmt.Errorf("web: %w", err)
	}
	if h.files, err = load(); err != nil {
		return nil, fmt.Errorf("web: %w", err)
	}
	if h.puzzles, err = loadPuzzles(); err != nil {
		return nil, fmt.Errorf("web: %w", err)
	}
	if c.Runs != "" {
		if h.runs, err = os.OpenRoot(c.Runs); err != nil {
			return nil, fmt.Errorf("web: training runs: %w", err)
		}
	}
	h.closing, h.close = context.WithCancel(context.Background())
	h.routes()
	return h, nil
}

// Close ends the analyses and moves in progress, and answers their clients, so that the server can shut down at once.
func (h *Handler) Close() {
	h.close()
	if h.runs != nil {
		h.runs.Close()
	}
}

// longRequests is the maximum number of long requests whose bodies are in memory.
const longRequests = 16

// route is a path of the API. Its errors are sent as JSON.
type route struct {
	method, path string
	serve        func(http.ResponseWriter, *http.Request) error
}

// routes registers the API.
func (h *Handler) routes() {
	routes := []route{
		{http.MethodGet, "/ui/position.svg", h.servePicture},
		{http.MethodGet, "/ui/position.png", h.servePicture},
		{http.MethodGet, "/ui/game.txt", h.serveGameFile},
		{http.MethodGet, "/ui/status", h.serveStatus},
		{http.MethodGet, "/ui/runs", h.serveRuns},
		{http.MethodGet, "/ui/run", h.serveRun},
		{http.MethodGet, "/ui/puzzles", h.servePuzzles},
		{http.MethodGet, "/", h.serveFile},
	}
	for _, name := range h.Questions() {
		method := http.MethodPost
		if name == "config" {
			method = http.MethodGet
		}
		routes = append(routes, route{method, "/ui/" + name, h.serveQuestion(name)})
	}
	for _, r := range routes {
		h.mux.HandleFunc(r.path, func(w http.ResponseWriter, q *http.Request) {
			if q.Method != r.method && (q.Method != http.MethodHead || r.method != http.MethodGet) {
				w.Header().Set("Allow", r.method)
				sendError(w, refuse(http.StatusMethodNotAllowed, "", "%s %s: want %s", q.Method, q.URL.Path, r.method))
			} else if err := r.serve(w, q); err != nil {
				sendError(w, err)
			}
		})
	}
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	protect(w.Header())
	h.mux.ServeHTTP(w, r)
}

// protect sets the security headers of all answers: the page loads nothing from other hosts, cannot be framed, and is not cached.
func protect(header http.Header) {
	header.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
}
