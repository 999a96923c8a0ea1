package web

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/evald/evald/cmd/evald/internal/answer"
	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/arena"
	"github.com/evald/evald/engine/ask"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/record"
	"github.com/evald/evald/engine/record/recordtest"
)

// recorded writes finished games as records, and returns the file. Each game is its moves and its result for the first side.
func recorded(t *testing.T, rules string, games map[string]int8) string {
	t.Helper()
	var all []record.Record
	b := gametest.Must(game.NewBoard(gametest.Must(game.ParseRules(rules))(t)))(t)
	for text, z := range games {
		_, moves, err := b.ParseMoves(text)
		gametest.OK(t, err)
		var p game.Position
		for ply, a := range moves {
			all = append(all, record.Record{Rules: b.Rules(), Position: p, Z: z, Ply: ply, Weight: 1, Game: record.NoGame, Move: uint8(a + 1)})
			p, z = b.Play(p, a), -z
		}
	}
	path := filepath.Join(t.TempDir(), "games.parquet")
	recordtest.Write(t, path, all)
	return path
}

// Moves are counted with their results for the side that made them; mirror images count together.
func TestPlayed(t *testing.T) {
	file := recorded(t, "5x4x4", map[string]int8{"3142": 1, "3541": -1, "33": 0, "12345": 1})
	games := gametest.Must(ReadGames(context.Background(), file))(t)
	if got := games.Summary(); got != "4 games, 12 different moves" {
		t.Errorf("the games are %q", got)
	}
	h := handler(t, Config{Games: games})
	type answer struct{ Moves []playedCounts }
	for position, want := range map[string]map[int]playedCounts{
		"5x4x4:-":  {2: {3, 1, 1, 1}, 0: {1, 1, 0, 0}, 4: {1, 1, 0, 0}},
		"5x4x4:3":  {0: {2, 1, 0, 1}, 4: {2, 1, 0, 1}, 2: {1, 0, 1, 0}}, // 31 and 35 are mirror images
		"5x4x4:31": {3: {1, 1, 0, 0}, 1: {1, 0, 0, 1}},                  // after 35 it was 2, the mirror image of 4
		"7x6x4:3":  {},
	} {
		got := answered[answer](t, asked(t, h, "/ui/played", `{"position":"`+position+`"}`))
		for a, c := range got.Moves {
			if c != want[a] {
				t.Errorf("%s: move %d: %+v, want %+v", position, a+1, c, want[a])
			}
		}
	}
	if r := asked(t, handler(t, Config{}), "/ui/played", `{"position":"-"}`); r.StatusCode != 404 {
		t.Errorf("without games the status is %d", r.StatusCode)
	}
	if _, err := ReadGames(context.Background(), file, "missing.parquet"); err == nil || !strings.Contains(err.Error(), "missing.parquet") {
		t.Errorf("a missing file is %v", err)
	}
}

// Games of matches count like those of records.
func TestPlayedMatch(t *testing.T) {
	b := gametest.Must(game.NewBoard(gametest.Must(game.ParseRules("5x4x4"))(t)))(t)
	m := &arena.Match{
		Board: b, Players: arena.Players([]agent.Spec{{Name: "random"}, {Name: "random", Search: ask.Search{Seed: 2}}}, agent.Shared{}),
		Openings: [][]int{{2, 2}}, Concurrency: 1,
	}
	path := filepath.Join(t.TempDir(), "match.parquet")
	r := gametest.Must(arena.OpenRecord(path, m, "33"))(t)
	for n := int32(1); n <= 4; n++ { // Red wins, a draw, Yellow wins twice
		points := []float64{1, 0.5, 0, 0}[n-1]
		gametest.OK(t, r.Add(arena.Game{Number: n, Points: points, Moves: "5x4x4:3314", OpeningMoves: "33"}))
	}
	gametest.OK(t, r.Close())
	games := gametest.Must(ReadGames(context.Background(), path))(t)
	p := b.Play(b.Play(game.Position{}, 2), 2)
	if got, want := playedCounts(games.moves(b, p)[4]), (playedCounts{4, 1, 1, 2}); got != want { // 1 and 5 are mirror images there
		t.Errorf("after 33 move 5 counts %+v, want %+v", got, want)
	}
	if got, want := playedCounts(games.moves(b, b.Play(game.Position{}, 2))[2]), (playedCounts{4, 2, 1, 1}); got != want {
		t.Errorf("after 3 move 3 counts %+v, want %+v", got, want)
	}
}

// The explorer shows exact scores and games, goes to positions and back, and keeps lines with notes in the browser.
func TestPageExplorer(t *testing.T) {
	games := gametest.Must(ReadGames(context.Background(), recorded(t, "5x4x4", map[string]int8{"3142": 1, "33": 0})))(t)
	b := open(t, Config{Games: games, Limits: Limits{Time: 20 * time.Second}}, "/#explore=5x4x4:-")
	at := func(position string) { // the address changes before the board does
		t.Helper()
		b.until(fmt.Sprintf(`location.hash === "#explore=%[1]s" && document.getElementById("explore-position").value === %[1]q`, position))
	}
	b.says("#explore-status", "Red to move")
	b.says("#explore-moves tr:nth-child(1) .exact-worth", "Yellow wins in 10")
	b.says("#explore-moves tr:nth-child(3) .exact-worth", "draw ★")
	b.says("#explore-moves tr:nth-child(3) .games", "2 games, 75% of the points")
	b.click("#explore-moves tr:nth-child(3) button")
	at("5x4x4:3")
	b.says("#explore-status", "Yellow to move")
	b.click("#explore-board > button:nth-child(1)")
	at("5x4x4:31")
	b.click("#explore-keep")
	b.says("#explore-said", "The line is kept")
	b.run("history.back()")
	b.says("#explore-status", "Yellow to move")
	b.click("#explore-board > button:nth-child(3)")
	at("5x4x4:33")
	b.run(`(() => { const e = document.getElementById("explore-note"); e.value = "worth a try"; e.dispatchEvent(new Event("change")); })()`)
	b.until(`document.querySelectorAll("#explore-tree > li > ul > li").length === 2`) // after 3 the lines part
	b.tidy("explorer")
	b.do(chromedp.Reload())
	b.until(`document.querySelectorAll("#explore-tree > li > ul > li").length === 2`)
	b.until(`document.getElementById("explore-note").value === "worth a try"`)
	b.click(`#explore-tree button[data-position="5x4x4:31"]`)
	at("5x4x4:31")
	b.until(`document.getElementById("explore-note").value === ""`)
	b.click(`#explore-tree button[data-remove="5x4x4:33"]`)
	b.until(`document.querySelectorAll("#explore-tree button[data-position]").length === 2`)
	for id, kind := range map[string]string{"svg": "image/svg+xml", "png": "image/png", "file": "text/plain"} {
		link := valueOf[string](b, fmt.Sprintf(`new URL(document.getElementById("explore-%s").href).pathname + new URL(document.getElementById("explore-%s").href).search`, id, id))
		if r := asked(t, b.h, link, ""); r.StatusCode != 200 || !strings.HasPrefix(r.Header.Get("Content-Type"), kind) {
			t.Errorf("%s: status %d, %s", link, r.StatusCode, r.Header.Get("Content-Type"))
		}
	}
	b.click("#explore-back")
	at("5x4x4:3")

	// By keyboard alone, and a position that is wrong.
	b.do(chromedp.Focus(chromedp.CSS("#explore-board > button:nth-child(3)")))
	b.press("4")
	at("5x4x4:34")
	b.press(kb.Backspace)
	at("5x4x4:3")
	b.run(`(() => { const e = document.getElementById("explore-position"); e.value = "5x4x4:39"; e.dispatchEvent(new Event("change")); })()`)
	b.says("#problem", "9")
	b.says("#explore-status", "Yellow to move")
}

// What a network thinks of a move at sight is the value of the position after it, for the side that moves; what the rules decide is exact.
func TestOpinion(t *testing.T) {
	h := handler(t, Config{})
	type sights struct{ Moves []*answer.Sight }
	p := "7x6x4:4455"
	moves := answered[sights](t, asked(t, h, "/ui/opinion", `{"position":"`+p+`","model":"gameovers"}`)).Moves
	b := gametest.Must(game.NewBoard(game.Connect4))(t)
	e := gametest.Must(heuristic.New(eval.Gameovers))(t)
	_, start, err := b.ParseMoves("4455")
	gametest.OK(t, err)
	share := float32(0)
	for a, m := range moves {
		batch := eval.NewBatch(b, 1)
		batch.Pos[0] = b.Play(b.PlayMoves(start), a)
		gametest.OK(t, e.Evaluate(t.Context(), batch))
		if want := -batch.Value(0); m.Value != want {
			t.Errorf("%s: move %d has the value %v, want %v", p, a+1, m.Value, want)
		}
		share += m.Share
	}
	if share < 0.999 || share > 1.001 {
		t.Errorf("the shares sum to %v", share)
	}
	won := answered[sights](t, asked(t, h, "/ui/opinion", `{"position":"7x6x4:1111112636"}`)).Moves
	if m := won[3]; won[0] != nil || m == nil || !m.Exact || m.Value != 1 {
		t.Errorf("the full column is %+v, the winning move %+v", won[0], won[3])
	}
	for body, want := range map[string]string{
		`{"position":"4","model":"/etc/passwd"}`:        "must be a heuristic or one of",
		`{"position":"4","model":"bitsquares:power=x"}`: "power is",
		`{"position":"4151617"}`:                        "the game is over",
	} {
		r := asked(t, h, "/ui/opinion", body)
		if text := string(gametest.Must(io.ReadAll(r.Body))(t)); r.StatusCode != http.StatusBadRequest || !strings.Contains(text, want) {
			t.Errorf("%s: status %d, %s, want %s", body, r.StatusCode, text, want)
		}
	}
}

// In Study two networks or searches stand beside the solver; each value can be thought about longer, and the address has the choices.
func TestPageStudy(t *testing.T) {
	for name, actions := range map[string][]chromedp.Action[chromedp.Void]{
		"study_wide": {chromedp.EmulateViewport(1280, 900)}, "study_phone": {phone()}, "study_dark": {chromedp.EmulateViewport(320, 640), dark()},
	} {
		b := open(t, Config{Limits: Limits{Time: 20 * time.Second}}, "/#explore=7x6x4:445544", actions...)
		all := `[...document.querySelectorAll("#explore-moves tr")]`
		b.until(all + `.length === 7 && ` + all + `.every((r) => /%|wins|draw/.test(r.cells[1].textContent) && /wins in|draw/.test(r.cells[3].textContent))`)
		b.says("#explore-moves tr:nth-child(3) td:nth-of-type(2)", "Red wins")
		b.says("#opinion-a-how", "at sight")
		b.says("#opinion-b-how", "2 k visits")
		b.choose("opinion-a", "gameovers")
		b.until(`location.hash === "#explore=7x6x4:445544&a=gameovers,0"`)
		b.click("#opinion-a-longer")
		b.until(`location.hash === "#explore=7x6x4:445544&a=gameovers,2000"`)
		b.says("#opinion-a-how", "2 k visits")
		b.click("#opinion-b-longer")
		b.says("#opinion-b-how", "10 k visits")
		b.says("#explore-moves tr:nth-child(3) td:nth-of-type(1)", "Red wins")
		b.tidy(name)
		b.do(chromedp.Reload())
		b.says("#opinion-b-how", "10 k visits")
		b.until(`document.getElementById("opinion-a").value === "gameovers"`)
		b.run(`location.hash = "#explore=7x6x4:44"`)
		b.says("#opinion-a-how", "at sight")
		b.run(`location.hash = "#explore=7x6x4:44&a=nonsense,7&b=,"`)
		b.says("#opinion-a-how", "7 visits")
		b.says("#opinion-b-how", "2 k visits")
	}
}

// Of a board that the solver cannot finish, study shows what the others think.
func TestPageStudyLarge(t *testing.T) {
	b := open(t, Config{Limits: Limits{Time: time.Second}}, "/#explore=10x8x5:5566")
	all := `[...document.querySelectorAll("#explore-moves tr")]`
	b.until(all + `.length === 10 && ` + all + `.every((r) => /\d%/.test(r.cells[1].textContent) && /\d%/.test(r.cells[2].textContent))`)
	b.says("#explore-moves", "not solved in time")
	b.tidy("study_large")
}

// A file of lines that is not ours is refused, and changes nothing.
func TestPageExplorerFiles(t *testing.T) {
	b := open(t, Config{}, "/#explore=5x4x4:33")
	b.says("#explore-status", "Red to move")
	b.click("#explore-keep")
	wrong := []string{"", "[]x", `{"5x4x4":7}`, `{"<b>":{"next":{}}}`, `{"5x4x4":{"next":{"<b>":{}}}}`, strings.Repeat(`{"5x4x4":{"next":{"1":`, 1) + strings.Repeat(`{"next":{"1":`, 200) + "{}" + strings.Repeat("}}", 201) + "}"}
	for _, text := range wrong {
		refused := valueOf[string](b, `(() => { window.refused = undefined; import("/ui/kept.js").then(({ checked }) => { try { checked(JSON.parse(`+"`"+text+"`"+`)); window.refused = "taken"; } catch { window.refused = "refused"; } }); return ""; })()`)
		b.until(`window.refused === "refused"` + refused)
	}
	b.until(`document.querySelectorAll("#explore-tree button[data-position]").length === 2`)
}

// The drill takes right moves, refuses those that give the win away, and comes back to them.
func TestPageDrill(t *testing.T) {
	b := open(t, reviewConfig(), "/#drill")
	b.says("#drill-said", "One first move wins")
	b.click("#drill-board > button:nth-child(1)")
	b.says("#drill-said", "1 gives the win away: Yellow wins")
	b.says("#drill-more", "The win is kept by 4")
	b.says("#drill-more", "zugzwang after 37 moves: Red must play below a cell where Yellow completes 4 in a row")
	b.says("#drill-due", "1 to come back to")
	if link := valueOf[string](b, `document.getElementById("drill-why").getAttribute("href")`); link != "#review=7x6x4:1" {
		t.Errorf("why leads to %q", link)
	}
	b.click("#drill-board > button:nth-child(3)")
	b.says("#drill-said", "3 gives the win away: Yellow can hold a draw")
	b.tidy("drill")
	b.click("#drill-board > button:nth-child(4)")
	b.says("#drill-said", "4 is the quickest: Red wins in 21")
	b.until(`document.querySelectorAll("#drill-line li").length === 2`)
	for range 2 {
		b.click("#drill-new")
		b.until(`document.querySelectorAll("#drill-line li").length === 0`)
		b.click("#drill-board > button:nth-child(4)")
		b.until(`document.querySelectorAll("#drill-line li").length === 2`)
	}
	b.says("#drill-due", "None")
}
