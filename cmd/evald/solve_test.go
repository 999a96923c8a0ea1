package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/solver/book"
)

var timing = regexp.MustCompile(`"nodes":\d+,"seconds":[0-9.e-]+`)

// Positions that every solver solves at once: won, drawn and lost ones, other boards, finished games.
const solvable = `2252576253462244111563365343671351441
7422341735647741166133573473242566
23163416124767223154467471272416755633
9x5x4:6862261646278997351243442483357
3x3x3free:51
3x3x3free:519
1212121
448
4x4x3:-
`

func TestSolve(t *testing.T) {
	for _, threads := range []string{"1", "2"} {
		status, out, stderr := evald(t, solvable, "solve", "--scores", "--threads", threads, "--table-mib", "8")
		if status != exitBadInput || !strings.Contains(stderr, "1 of 9 lines refused") {
			t.Errorf("status %d, errors %q", status, stderr)
		}
		golden(t, "solve.jsonl", timing.ReplaceAllString(out, `"nodes":0,"seconds":0`))
	}
	status, out, _ := evald(t, "1212121\n448\n4x4x3:-\n", "solve", "--scores", "--format", "text")
	if want := "1212121 -1000 -1000 -1000 -1000 -1000 -1000 -1000\n# line 2: moves \"448\": move 3 is \"8\", not one of 1 to 7\n"; status != exitBadInput || !strings.HasPrefix(out, want) {
		t.Errorf("status %d, %s; want %s", status, out, want)
	}
}

// MTD(f) finds the scores of the windows, by other nodes.
func TestSolveMethods(t *testing.T) {
	const positions = "444443255\n2252576253462244111563365343671351441\n12212364\n3x3x3free:51\n4x4x4:1\n"
	nodes := regexp.MustCompile(`"nodes":\d+`)
	var all, scores []string
	for _, method := range []string{"windows", "mtdf"} {
		out := must(t, positions, "solve", "--scores", "--threads", "1", "--book", "none", "--method", method)
		all = append(all, strings.Join(nodes.FindAllString(out, -1), " "))
		scores = append(scores, timing.ReplaceAllString(out, ""))
	}
	if all[0] == all[1] || scores[0] != scores[1] {
		t.Errorf("nodes %q, answers\n%s", all, strings.Join(scores, "\n"))
	}
}

// Agents are measured by their moves only; the solver's are perfect.
func TestScoreAgents(t *testing.T) {
	const positions = "2252576253462244111563365343671351441\n7422341735647741166133573473242566\n23163416124767223154467471272416755633\n" +
		"9x5x4:6862261646278997351243442483357\n3x3x3free:51\n4x4x3:-\n"
	_, exact, _ := evald(t, positions, "solve", "--scores", "--format", "text")
	status, out, stderr := evald(t, exact, "score", "-", "--agent", "solver", "--agent", "random:seed=1", "--json")
	var reports []namedReport
	if err := json.Unmarshal([]byte(out), &reports); err != nil || status != exitOK || len(reports) != 2 {
		t.Fatalf("status %d, %v, %d reports, errors %q", status, err, len(reports), stderr)
	}
	if r := reports[0]; r.Model != "solver" || r.All.Positions < 5 || r.All.Perfect.Value != 1 || r.All.Good.Value != 1 || r.All.Regret.Value != 0 {
		t.Errorf("the solver is not perfect: %+v", r)
	}
	if r := reports[1]; r.All.Perfect.Value == 1 || strings.Contains(out, "brier") {
		t.Errorf("chance is perfect, or has values: %s", out)
	}
	refuses(t, exitUsage, `agent "robot"`, exact, "score", "-", "--agent", "robot")
	refuses(t, exitBadInput, "no such file", exact, "score", "-", "--agent", "mcts:book=no.book")
}

// score can read what solve writes.
func TestSolveThenScore(t *testing.T) {
	dir := t.TempDir()
	for _, format := range []string{"text", "jsonl"} {
		out := must(t, "2252576253462244111563365343671351441\n23163416124767223154467471272416755633\n", "solve", "--scores", "--format", format)
		path, svg := filepath.Join(dir, "scores."+format), filepath.Join(dir, format+".svg")
		putFile(t, path, out)
		golden(t, "score.txt", must(t, "", "score", path, "--backend", "bitsquares", "--plot", svg))
		golden(t, "score_raw.txt", must(t, "", "score", path, "--backend", "bitsquares", "--raw"))
		if picture, err := os.ReadFile(svg); err != nil || !bytes.Contains(picture, []byte("<svg")) || !bytes.Contains(picture, []byte("perfect move")) {
			t.Errorf("plot: %v, %d bytes", err, len(picture))
		}
	}
}

func TestBook(t *testing.T) {
	path := filepath.Join(t.TempDir(), "book")
	args := []string{"solve", "--build-book", path, "--rules", "5x4x4", "--plies", "4", "--threads", "2", "--table-mib", "8"}
	status, out, stderr := evald(t, "", args...)
	if status != exitOK || !strings.Contains(out, "positions of up to 4 plies of 5x4x4") || stderr != "" {
		t.Fatalf("status %d, %q, errors %q", status, out, stderr)
	}
	const in = "5x4x4:-\n5x4x4:1122\n5x4x4:11223\n4x4x4:-\n"
	_, with, _ := evald(t, in, "solve", "--book", path)
	_, without, _ := evald(t, in, "solve")
	if got := strings.Count(with, `"book":true`); got != 2 || strings.Contains(without, `"book":true`) {
		t.Errorf("%d answers by the book, want 2:\n%s", got, with)
	}
	score := regexp.MustCompile(`"score":-?\d+`)
	if a, b := score.FindAllString(with, -1), score.FindAllString(without, -1); strings.Join(a, " ") != strings.Join(b, " ") || len(a) != 4 {
		t.Errorf("scores with a book %v, without %v", a, b)
	}
	putFile(t, path, "x")
	refuses(t, exitBadInput, "is not a book of exact scores", in, "solve", "--book", path)
}

// The packed scores of a book's last ply are those of the book.
func TestPackBook(t *testing.T) {
	dir := t.TempDir()
	path, packed := filepath.Join(dir, "book"), filepath.Join(dir, "packed")
	must(t, "", "solve", "--build-book", path, "--rules", "5x4x4", "--plies", "6")
	out := must(t, "", "solve", "--book", path, "--pack-book", packed)
	if want := fmt.Sprintf("%s: the scores of all positions with 6 stones of 5x4x4, in %d bytes\n", packed, len(getFile(t, packed))); out != want {
		t.Errorf("output %q, want %q", out, want)
	}
	whole, last := gametest.Must(book.Load(path))(t), gametest.Must(book.ParsePacked(getFile(t, packed)))(t)
	r, b := gametest.Rand(1), game.MustBoard(whole.Rules())
	for range 1000 {
		p := gametest.Position(r, b, 3+r.IntN(4), true)
		want, has := whole.Score(p)
		if got, ok := last.Score(p); p.Plies() >= 3 && (got != want || !ok || !has) {
			t.Fatalf("%+v has score %d, %v; in the book %d, %v", p, got, ok, want, has)
		}
	}
	must(t, "", "solve", "--build-book", path, "--rules", "5x4x4", "--plies", "6", "--results")
	refuses(t, exitBadInput, "has only results, and no scores", "", "solve", "--book", path, "--pack-book", packed)
	refuses(t, exitBadInput, "no such file", "", "solve", "--book", path+".none", "--pack-book", packed)
}

// cancelAfterRead interrupts the program after it has read everything.
type cancelAfterRead struct {
	text   *strings.Reader
	cancel func()
}

func (r *cancelAfterRead) Read(p []byte) (int, error) {
	if r.text.Len() == 0 {
		r.cancel()
	}
	return r.text.Read(p)
}

func TestBenchSolve(t *testing.T) {
	path := filepath.Join(t.TempDir(), "set")
	putFile(t, path, "2252576253462244111563365343671351441 -1\n7422341735647741166133573473242566 1\n23163416124767223154467471272416755633 5\n")
	status, out, stderr := evald(t, "", "bench", "solve", path, "--first", "2", "--table-mib", "8")
	if status != exitOK || !strings.Contains(out, "nodes/s") {
		t.Errorf("status %d, %s, errors %q", status, out, stderr)
	}
	status, out, stderr = evald(t, "", "bench", "solve", path, "--json", "--table-mib", "8")
	if status != exitBadInput || !strings.Contains(out, `"wrong": 1`) || !strings.Contains(stderr, "1 wrong scores") {
		t.Errorf("status %d, %s, errors %q", status, out, stderr)
	}
}

func TestSearch(t *testing.T) {
	const in = "121212\n448\n334\n1212121\n3x3x3free:12354687\n"
	for _, selection := range []string{"puct", "uct", "gumbel", "flat"} {
		status, out, stderr := evald(t, in, "search", "--backend", "bitsquares", "--visits", "300", "--selection", selection)
		if status != exitBadInput || !strings.Contains(stderr, "1 of 5 lines refused") {
			t.Errorf("%s: status %d, errors %q", selection, status, stderr)
		}
		golden(t, "search_"+selection+".jsonl", out)
	}
}

// The shipped book answers unless another one or none is named.
func TestShippedBook(t *testing.T) {
	status, out, stderr := evald(t, "-\n", "solve", "--scores")
	if status != exitOK || stderr != "" || !strings.Contains(out, `"score":1,"best":4,"scores":[-2,-1,0,1,0,-1,-2],"nodes":0`) || !strings.Contains(out, `"book":true`) {
		t.Errorf("status %d, output %s, errors %q", status, out, stderr)
	}
	path := filepath.Join(t.TempDir(), "4x4")
	must(t, "", "solve", "--build-book", path, "--plies", "2", "--rules", "4x4x4")
	for flag, want := range map[string]string{"": `"book":false`, "none": `"book":false`, path: `"book":true`} {
		args := []string{"solve"}
		if flag != "" {
			args = append(args, "--book", flag)
		}
		if _, out, _ := evald(t, "4x4x4:12\n", args...); !strings.Contains(out, want) {
			t.Errorf("--book %s: %s, want %s", flag, out, want)
		}
	}
	if _, out, _ := evald(t, "44\n", "solve", "--book", path); !strings.Contains(out, `"book":true`) {
		t.Errorf("beside a book of another game: %s", out)
	}
	refuses(t, exitBadInput, "no such file", "44\n", "solve", "--book", path+".none")
}

func TestScoreVisits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "scores")
	putFile(t, path, must(t, "374545544145132542162\n35553353533456766466\n", "solve", "--scores", "--format", "text"))
	golden(t, "score_visits.txt", must(t, "", "score", path, "--backend", "bitsquares", "--visits", "0,3000"))
}

// Files of other projects are read: Kaggle's boards with move scores, and moves with the score of the position alone, whose
// moves are solved. Both give the report of the same positions after evald solve --scores.
func TestScorePublicFiles(t *testing.T) {
	const kaggle = "testdata/kaggle_moves.jsonl"
	report := func(in string, file string) string {
		t.Helper()
		return must(t, in, "score", file, "--backend", "bitsquares", "--json")
	}
	boards := ""
	for line := range strings.Lines(string(getFile(t, kaggle))) {
		var p struct{ Board []int }
		gametest.OK(t, json.Unmarshal([]byte(line), &p))
		mark := 1
		for _, cell := range p.Board {
			if cell != 0 {
				mark = 3 - mark
			}
		}
		boards += string(gametest.Must(json.Marshal(map[string]any{"board": p.Board, "mark": mark}))(t)) + "\n"
	}
	if want, got := report(must(t, boards, "solve", "--scores"), "-"), report("", kaggle); want != got {
		t.Errorf("Kaggle's format: %s, want %s", got, want)
	}
	const moves = "2252576253462244111563365343671351441\n7422341735647741166133573473242566\n9x5x4:6862261646278997351243442483357\n23163416124767223154467471272416755633\n"
	pons := must(t, moves, "solve", "--format", "text")
	if want, got := report(must(t, moves, "solve", "--scores"), "-"), report(pons, "-"); want != got {
		t.Errorf("moves and the score of the position: %s, want %s", got, want)
	}
	golden(t, "score_public.txt", must(t, pons, "score", kaggle, "-", "--backend", "bitsquares"))

	refuses(t, exitBadInput, "evald: -: line 2: score 3 of the position is wrong: the solver finds -1\n",
		"7422341735647741166133573473242566 1\n2252576253462244111563365343671351441 3\n", "score", "-", "--backend", "bitsquares")
	wrong := strings.Replace(string(getFile(t, kaggle)), `"score": `, `"score": 1`, 1)
	refuses(t, exitBadInput, "evald: -: line 1: score is 110, but the best move score is 10: ", wrong, "score", "-", "--backend", "bitsquares")
}

// The scores of Pascal Pons' positions are those that the solver finds.
func TestScorePons(t *testing.T) {
	for _, name := range []string{"Test_L3_R1", "Test_L2_R2_first500"} {
		out := must(t, "", "score", gametest.Data(t, "pons/"+name), "--backend", "uniform", "--json")
		if n := len(gametest.DataLines(t, "pons/"+name)); !strings.Contains(out, fmt.Sprintf(`"name": "all",
      "positions": %d,`, n)) {
			t.Errorf("%s has %d lines: %s", name, n, out)
		}
	}
}
