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
//	request.go   how requests below /ui/ are read and refused
//	pasted.go    a text that a visitor has typed or pasted as a position
//	game.go      a game's state after a command; values.go: the value of each of its positions
//	played.go    how often each move was played in recorded games
//	analysis.go  the opinions of the evaluator, a search and the solver, as a stream of lines
//	review.go    a review of a whole game, and why a move is a mistake
//	tree.go      the tree of a search
//	pictures.go  a position as SVG or PNG, and the file of a game
//	think.go     an agent's move; how requests that compute begin and end
//	status.go    the state of the service
//	runs.go      training runs; curves.go: the curves of their files
//	puzzles.go   the puzzles that ship
//	cluster.go   the page of a learner and its workers
//
// # Decisions
//
// Each command builds a play.Session from the moves, so the page needs no rules of the game. The browser's history is the history of the
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
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/evald/evald/cmd/evald/internal/places"
	"github.com/evald/evald/cmd/evald/internal/play"
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
type Limits struct {
	Visits int           // of a search or an agent's move; default 1 million, or fewer if a place has too little memory
	Time   time.Duration // of an analysis or an agent's move; default 10 s
	Review time.Duration // of a game's review, or of why a move is a mistake; default 1.8 s, and at most Time
}

func (l Limits) orDefaults(p *places.Places) Limits {
	l.Visits = cmp.Or(l.Visits, int(min(1_000_000, p.Bytes/visitBytes)))
	l.Time = cmp.Or(l.Time, 10*time.Second)
	l.Review = min(cmp.Or(l.Review, 1800*time.Millisecond), l.Time)
	return l
}

// visitBytes is the memory of a visit in a tree, in bytes.
const visitBytes = 300

// Handler serves the page. The server must call Close when it shuts down. The Handler accepts requests of other sites' pages; put an
// origin.Policy in front of it.
type Handler struct {
	config  Config
	mux     http.ServeMux
	files   map[string]file
	puzzles file
	drawing *places.Places // for pictures
	runs    *os.Root       // nil: no runs
	status  memo
	read    memo // for runs

	closing context.Context
	close   context.CancelFunc
}

func (c *Config) modelOn(r game.Rules) string {
	if c.ModelOn == nil {
		return c.Model
	}
	return c.ModelOn(r)
}

// New returns the handler of a page. The error names the wrong field of the Config.
func New(c Config) (*Handler, error) {
	if c.Evaluator == nil {
		return nil, errors.New("web: no evaluator")
	}
	if c.Places == nil {
		c.Places = places.ForPage(0)
	}
	c.Limits = c.Limits.orDefaults(c.Places)
	c.Networks = append([]string{}, c.Networks...) // JSON gets an empty list rather than null
	if c.Limits.Visits < 1 || c.Limits.Time < 0 || c.Limits.Review < 0 {
		return nil, fmt.Errorf("web: limits %+v: must be positive", c.Limits)
	}
	c.Agents.Memory = c.Places.Bytes
	h := &Handler{config: c, status: memo{answers: map[string]remembered{}}, read: memo{answers: map[string]remembered{}}}
	h.drawing = places.New(runtime.GOMAXPROCS(0))
	var err error
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

// routes registers the API. Errors of handlers are sent as JSON.
func (h *Handler) routes() {
	for _, r := range []struct {
		method, path string
		serve        func(http.ResponseWriter, *http.Request) error
	}{
		{http.MethodGet, "/ui/config", h.serveConfig},
		{http.MethodPost, "/ui/read", h.serveRead},
		{http.MethodPost, "/ui/game", h.serveGame},
		{http.MethodPost, "/ui/move", h.serveMove},
		{http.MethodPost, "/ui/analyze", h.serveAnalysis},
		{http.MethodPost, "/ui/values", h.serveValues},
		{http.MethodPost, "/ui/played", h.servePlayed},
		{http.MethodPost, "/ui/review", h.serveReview},
		{http.MethodPost, "/ui/why", h.serveWhy},
		{http.MethodPost, "/ui/tree", h.serveTree},
		{http.MethodGet, "/ui/position.svg", h.servePicture},
		{http.MethodGet, "/ui/position.png", h.servePicture},
		{http.MethodGet, "/ui/game.txt", h.serveGameFile},
		{http.MethodGet, "/ui/status", h.serveStatus},
		{http.MethodGet, "/ui/runs", h.serveRuns},
		{http.MethodGet, "/ui/run", h.serveRun},
		{http.MethodGet, "/ui/puzzles", h.servePuzzles},
		{http.MethodGet, "/", h.serveFile},
	} {
		h.mux.HandleFunc(r.path, func(w http.ResponseWriter, q *http.Request) {
			if q.Method != r.method && (q.Method != http.MethodHead || r.method != http.MethodGet) {
				w.Header().Set("Allow", r.method)
				answerError(w, refuse(http.StatusMethodNotAllowed, "", "%s %s: want %s", q.Method, q.URL.Path, r.method))
			} else if err := r.serve(w, q); err != nil {
				answerError(w, err)
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

// serveConfig answers with the settings that the page needs.
func (h *Handler) serveConfig(w http.ResponseWriter, _ *http.Request) error {
	l := h.config.Limits
	levels := slices.DeleteFunc(slices.Clone(play.Levels), func(level play.Level) bool {
		_, err := h.spec(level.Name, 0)
		return err != nil // its network is not available
	})
	return answer(w, struct {
		Model    string              `json:"model"`
		Networks []string            `json:"networks"`
		Levels   []play.Level        `json:"levels"` // weakest first
		Agents   []agent.Description `json:"agents"`
		Visits   int                 `json:"visits"`
		Seconds  float64             `json:"seconds"`
		Service  bool                `json:"service"`  // the page can show the status
		Training bool                `json:"training"` // the page can show training runs
		Games    bool                `json:"games"`    // the page can ask how often a move was played
	}{h.config.Model, h.config.Networks, levels, agent.Descriptions(), l.Visits, l.Time.Seconds(), h.config.Metrics != nil, h.runs != nil, h.config.Games != nil})
}
