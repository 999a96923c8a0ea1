package web

import (
	"net/http"
	"net/url"
	"path"
	"strconv"
	"time"

	"github.com/evald/evald/cmd/evald/internal/answer"
	"github.com/evald/evald/cmd/evald/internal/diagram"
	"github.com/evald/evald/cmd/evald/internal/gamefile"
)

// maxQuery is the maximum length of an address's query in bytes. Even the longest game is shorter.
const maxQuery = 2 << 10

// query returns the values of the known parameters of an address's query; missing ones are "". It refuses other parameters and repeated
// ones.
func query(r *http.Request, known ...string) (map[string]string, error) {
	if len(r.URL.RawQuery) > maxQuery {
		return nil, bad("", "the address has more than %d bytes after the ?", maxQuery)
	}
	given, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, bad("", "the address cannot be read: %s", cut(err.Error()))
	}
	values := map[string]string{}
	for _, name := range known {
		if len(given[name]) > 1 {
			return nil, bad(name, "%s is given %d times", name, len(given[name]))
		}
		values[name] = given.Get(name)
		delete(given, name)
	}
	for name := range given {
		return nil, bad("", "%q is not known; the address may have %q", cut(name), known)
	}
	return values, nil
}

// servePicture answers GET /ui/position.svg and /ui/position.png. Parameters: position is rules and moves, numbers=1 writes the number of
// its move on each stone, size is the longer side in pixels.
func (h *Handler) servePicture(w http.ResponseWriter, r *http.Request) error {
	q, err := query(r, "position", "numbers", "size")
	if err != nil {
		return err
	}
	b, moves, err := answer.ParsePosition(q["position"])
	if err != nil {
		return err
	}
	d := diagram.Diagram{Board: b, Position: b.PlayMoves(moves), Moves: moves}
	switch q["numbers"] {
	case "", "0":
	case "1":
		d.Numbers = true
	default:
		return bad("numbers", "numbers is %q, must be 0 or 1", cut(q["numbers"]))
	}
	size := diagram.DefaultSize
	if q["size"] != "" {
		if size, err = strconv.Atoi(q["size"]); err != nil || size < diagram.MinSize || size > diagram.MaxSize {
			return bad("size", "size is %q, must be %d to %d", cut(q["size"]), diagram.MinSize, diagram.MaxSize)
		}
	}
	draw, kind := d.SVG, "image/svg+xml"
	if path.Ext(r.URL.Path) == ".png" {
		draw, kind = d.PNG, "image/png"
	}
	if err := h.drawing.Take(r.Context()); err != nil {
		return err
	}
	picture, err := draw(size)
	h.drawing.Leave()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(picture) // an error means that the client is gone
	return nil
}

// serveGameFile answers GET /ui/game.txt with the file of a game. Parameters: position is rules and moves, first and second are the
// players' names. The file has today's date (UTC).
func (h *Handler) serveGameFile(w http.ResponseWriter, r *http.Request) error {
	q, err := query(r, "position", "first", "second")
	if err != nil {
		return err
	}
	b, moves, err := answer.ParsePosition(q["position"])
	if err != nil {
		return err
	}
	for _, side := range []string{"first", "second"} {
		if err := gamefile.CheckName(q[side]); err != nil {
			return bad(side, "%s: %v", side, err)
		}
	}
	g := gamefile.Game{Board: b, Moves: moves, First: q["first"], Second: q["second"], Date: time.Now().UTC()}
	text, err := g.Format()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="evald-game.txt"`)
	_, _ = w.Write(text)
	return nil
}
