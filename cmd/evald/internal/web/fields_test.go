package web

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/evald/evald/cmd/evald/internal/pasted"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// otherFields are the page's fields for text that is no position.
var otherFields = []string{"rules-text", "agent-text", "explore-note"}

// forms returns texts that lead to positions: the forms in which people have them. Each text but
// the last is of another position.
func forms(t *testing.T, url string) []string {
	t.Helper()
	var p game.Parser
	board := func(moves string) string { return gametest.Must(p.Parse(moves))(t).Observation() }
	var o struct{ Board []int }
	gametest.OK(t, json.Unmarshal([]byte(board("11223")), &o))
	list := strings.ReplaceAll(fmt.Sprint(o.Board), " ", ", ")
	return []string{
		"4,4,5,5",
		url + "/?language=en#7x6x4:4456&red=person&yellow=strong",
		"#explore=9x5x4:4455",
		url + "/#review=7x6x4:445566",
		"#tree=7x6x4:44",
		board("9x5x4:11223"),
		board("44554"),
		"{'remainingOverageTime': 60, 'step': 5, 'board': " + list + ", 'mark': 2}",
		list[:len(list)-2] + "2]", // with a stone more
		`{"line":1,"position":"4433","to_move":1,"best":4}`,
		"4, 4, 3, 3", // the same again
	}
}

// Every field for positions reads every form of them. A text field is one for positions, unless it
// is one of otherFields.
func TestPageFields(t *testing.T) {
	b := open(t, Config{Limits: Limits{Time: 5 * time.Second, Review: time.Second / 10}}, "/#puzzles") // a view whose elements come late
	b.until("document.querySelector('#puzzle-board button')")
	b.choose("tree-visits", "500")
	b.run(`for (const id of ["sight", "evaluate", "solve"]) { document.getElementById(id).click(); }`) // the test needs no opinions
	fields := valueOf[[][2]string](b, `[...document.querySelectorAll("textarea, input")].filter((e) => ["text", "search", "url", "textarea"].includes(e.type)).map((e) => [e.id, e.closest("main > section").id])`)
	tried := 0
	for _, field := range fields {
		id, view := field[0], field[1]
		if slices.Contains(otherFields, id) {
			continue
		}
		tried++
		b.run(fmt.Sprintf("location.hash = %q", strings.TrimPrefix(view, "play")))
		b.until(fmt.Sprintf("!document.getElementById(%[1]q).hidden && !document.getElementById(%[1]q).inert", view))
		b.until(fmt.Sprintf("document.getElementById(%q).value || %v", id, view == "review")) // the view is there
		for _, text := range forms(t, b.url) {
			g, err := pasted.Read(text)
			gametest.OK(t, err)
			want := canonical(g.Board, g.Moves)
			b.run(fmt.Sprintf("((e) => { e.focus(); e.select(); })(document.getElementById(%q))", id))
			b.do(command(input.InsertText, input.InsertTextParams{Text: text}), chromedp.KeyEvent(kb.Enter))
			b.until(fmt.Sprintf(`!document.getElementById(%q).hidden && location.hash.split("&")[0].split("=").at(-1).replace("#", "") === %q`, view, want))
			b.until(fmt.Sprintf(`document.getElementById(%q).value === %q || /reviewed/.test(document.getElementById("review-status").textContent)`, id, want))
			if !g.Ordered {
				b.says("#"+view, "evald has chosen an order")
			}
		}
		b.run(fmt.Sprintf("((e) => { e.focus(); e.select(); })(document.getElementById(%q))", id))
		b.do(command(input.InsertText, input.InsertTextParams{Text: "#drill"}), chromedp.KeyEvent(kb.Enter))
		b.says("body", `"#drill": names no position`)
		b.run(`document.getElementById("problem").hidden = true`)
		b.forget("400 (Bad Request)")
	}
	if tried < 3 {
		t.Errorf("of the fields %q, %d are for positions", fields, tried)
	}
	b.tidy("fields")
}

// A request to read a text refuses what is no position, and reads long texts, such as replays.
func TestRead(t *testing.T) {
	h := handler(t, Config{})
	type read struct {
		Position string
		Ordered  bool
	}
	for text, want := range map[string]read{"4, 4": {"7x6x4:44", true}, "[[0,0,0],[0,0,0],[0,0,0]]": {}, strings.Repeat(" ", maxBody) + "5": {"7x6x4:5", true}} {
		r := asked(t, h, "/ui/read", string(gametest.Must(json.Marshal(map[string]string{"text": text}))(t)))
		if want == (read{}) {
			if body := string(gametest.Must(io.ReadAll(r.Body))(t)); r.StatusCode != http.StatusBadRequest || !strings.Contains(body, `"field":"text"`) {
				t.Errorf("%.40q: status %d, %s", text, r.StatusCode, body)
			}
		} else if got := answered[read](t, r); got != want {
			t.Errorf("%.40q is %+v, want %+v", text, got, want)
		}
	}
}
