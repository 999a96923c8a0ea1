package web

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/evald/evald/cmd/evald/internal/searchtree"
	"github.com/evald/evald/engine/game/gametest"
)

func TestTree(t *testing.T) {
	h := handler(t, Config{})
	tree := answered[searchtree.Tree](t, asked(t, h, "/ui/tree", `{"position":"7x6x4:445","visits":300,"nodes":20,"depth":3,"least":2}`))
	if tree.Visits != 300 || tree.ToMove != 2 || len(tree.Moves) == 0 || !tree.Moves[0].Line || tree.Shown != (searchtree.Bounds{Depth: 3, Visits: 2, Nodes: 20}) {
		t.Errorf("%+v", tree)
	}
	for body, want := range map[string]string{
		`{"position":"4","visits":1000001}`: "visits is 1000001, must be 1 to 100000",
		`{"position":"4","visits":-1}`:      "must be 1 to",
		`{"position":"4","depth":41}`:       "depth is 41, must be 1 to 40",
		`{"position":"4","nodes":1001}`:     "nodes is 1001, must be 1 to 1000",
		`{"position":"4","least":-2}`:       "least is -2",
		`{"position":"4151617"}`:            "the game is over",
		`{"position":"4","deep":1}`:         "unknown field",
	} {
		r := asked(t, h, "/ui/tree", body)
		if text := string(gametest.Must(io.ReadAll(r.Body))(t)); r.StatusCode != http.StatusBadRequest || !strings.Contains(text, want) {
			t.Errorf("%s: status %d, %s, want %s", body, r.StatusCode, text, want)
		}
	}
}

// The tree of the address is beside the board; it folds by keys, and its links go to the positions.
func TestPageTree(t *testing.T) {
	for name, actions := range map[string][]chromedp.Action[chromedp.Void]{
		"tree_wide": {chromedp.EmulateViewport(1280, 800)}, "tree_phone": {phone()}, "tree_dark": {chromedp.EmulateViewport(320, 640), dark()},
	} {
		b := open(t, Config{}, "/#tree=7x6x4:445", actions...)
		b.says("#tree-status", "visits;")
		b.until(`document.querySelectorAll("#tree-moves > li details").length > 3`)
		if open := valueOf[bool](b, `[...document.querySelectorAll("#tree-moves details")].every((d) => d.open === (d.parentElement.className === "main"))`); !open {
			t.Error("other moves than the expected ones are unfolded")
		}
		b.says("#tree-moves > li.main", "expected")
		b.run(`document.querySelector("#tree-moves summary").focus()`)
		b.press("\r")
		b.until(`!document.querySelector("#tree-moves details").open`)
		b.click("#tree-unfold")
		b.until(`[...document.querySelectorAll("#tree-moves details")].every((d) => d.open)`)
		b.tidy(name)
		b.click("#tree-fold")
		b.until(`[...document.querySelectorAll("#tree-moves details")].every((d) => !d.open)`)
		b.click("#tree-moves > li > a")
		b.until(`/^#tree=7x6x4:445[1-7]$/.test(location.hash) && document.querySelectorAll("#explore-board .s1, #explore-board .s2").length === 4`)
		b.says("#tree-status", "visits;")
		b.run(`document.querySelector("#tree > summary").click()`)
		b.until(`/^#explore=7x6x4:445[1-7]$/.test(location.hash) && document.getElementById("tree-moves").childElementCount === 0`)
	}
}

// Without proofs the search of a decided position makes all its visits, and proves nothing.
func TestTreeUnproved(t *testing.T) {
	h := handler(t, Config{})
	tree := func(more string) searchtree.Tree {
		return answered[searchtree.Tree](t, asked(t, h, "/ui/tree", `{"position":"7x6x4:4455","visits":300`+more+`}`))
	}
	if won := tree(""); won.Proved != "win" || won.Visits == 300 {
		t.Errorf("with proofs: %d visits, %q", won.Visits, won.Proved)
	}
	if open := tree(`,"unproved":true`); open.Proved != "" || open.Visits != 300 {
		t.Errorf("without proofs: %d visits, %q", open.Visits, open.Proved)
	}
	b := open(t, Config{}, "/#tree=7x6x4:4455")
	b.says("#tree-status", "visits; Red wins")
	b.click("#tree-prove")
	b.says("#tree-status", "2 k visits; Red ")
	off := valueOf[[]float64](b, `[...document.querySelectorAll("#tree-moves summary, #tree-moves .leaf")].filter((e) => e.checkVisibility()).map((e) => e.children[1].getBoundingClientRect().right)`)
	for _, x := range off {
		if x != off[0] {
			t.Errorf("the columns of the table end at %v", off)
			break
		}
	}
	b.tidy("tree_unproved")
}

// A broken position is said to be one, and German is spoken.
func TestPageTreeWords(t *testing.T) {
	b := open(t, Config{}, "/#tree=7x6x4:448")
	b.says("#problem", "8")
	b.choose("language", "de")
	b.says("#tree summary", "Suchbaum")
	b.run(`location.hash = "#tree=4455"`)
	b.says("#tree-status", "Besuche; Rot gewinnt")
}
