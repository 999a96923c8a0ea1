package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/puzzle"
)

// The same command writes the same bytes with any number of threads, and after a kill. Its summary says what is in the file.
func TestPuzzles(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	command := func(out string, more ...string) []string {
		return append([]string{"puzzles", "-o", out, "--rules", "6x5x4", "--count", "30"}, more...)
	}
	text := must(t, "", command(path("a.txt"), "--threads", "1")...)
	if !strings.HasPrefix(text, path("a.txt")+": 30 puzzles of ") || !strings.Contains(text, "zugzwang") {
		t.Errorf("the summary is %q", text)
	}
	want := string(getFile(t, path("a.txt")))
	if !strings.HasPrefix(want, "# 30 puzzles of 6x5x4: evald puzzles --rules 6x5x4 --count 30 --seed 1\n") || strings.Count(want, "\n") != 31 {
		t.Errorf("the file is %q", want)
	}
	var summary struct {
		Puzzles, Games, Bytes int
		Themes                map[string]int
	}
	gametest.OK(t, json.Unmarshal([]byte(must(t, "", command(path("b.txt.gz"), "--threads", "3", "--json")...)), &summary))
	packed := getFile(t, path("b.txt.gz"))
	read := gametest.Must(puzzle.Read(bytes.NewReader(packed)))(t)
	if head, _, _ := strings.Cut(want, "\n"); string(puzzle.Format(head[2:], read)) != want {
		t.Error("three threads and compression make other puzzles")
	}
	n := 0
	for _, count := range summary.Themes {
		n += count
	}
	if summary.Puzzles != 30 || n != 30 || summary.Bytes != len(packed) || summary.Games == 0 {
		t.Errorf("the summary is %+v", summary)
	}

	// A kill leaves a part of the journal, whose last line may be torn.
	board := read[0].Board
	var journal bytes.Buffer
	c := puzzlesCmd{Out: path("c.txt"), Count: 30, Seed: 1, Rules: "6x5x4"}
	_, j, err := c.resume(board, puzzleSettings{"6x5x4", 30, 1})
	gametest.OK(t, err)
	games := 0
	_, err = puzzle.Make(t.Context(), board, puzzle.Options{Count: 30, Seed: 1, Played: func(found []puzzle.Puzzle, _ int) error {
		games++
		return j.add(games-1, found)
	}})
	gametest.OK(t, err)
	gametest.OK(t, j.Close())
	journal.Write(getFile(t, c.journal()))
	for _, size := range []int{0, journal.Len() / 3, journal.Len() - 1, journal.Len()} {
		gametest.OK(t, os.WriteFile(c.journal(), journal.Bytes()[:size], 0o644))
		must(t, "", command(c.Out)...)
		if got := string(getFile(t, c.Out)); got != want {
			t.Errorf("resumed after %d of %d bytes the file is another", size, journal.Len())
		}
		if _, err := os.Stat(c.journal()); !os.IsNotExist(err) {
			t.Errorf("the journal is left: %v", err)
		}
	}
	gametest.OK(t, os.WriteFile(c.journal(), journal.Bytes(), 0o644))
	refuses(t, exitBadInput, "is of another file: remove it", "", command(c.Out, "--seed", "2")...)
	damaged := bytes.Replace(journal.Bytes(), []byte(`"game":`), []byte(`"gane":`), 2)
	gametest.OK(t, os.WriteFile(c.journal(), damaged, 0o644))
	refuses(t, exitBadInput, "remove that line", "", command(c.Out)...)
	if free := must(t, "", "puzzles", "-o", path("free"), "--rules", "3x3x3free", "--count", "10"); !strings.Contains(free, ": 10 puzzles of ") {
		t.Errorf("without gravity the summary is %q", free)
	}
	refuses(t, exitUsage, "--rules", "", "puzzles", "-o", path("d"), "--rules", "99x99x4")
	refuses(t, exitUsage, "--count 0: must be", "", "puzzles", "-o", path("d"), "--count", "0")
}

// An interrupt says how many puzzles are kept.
func TestPuzzlesInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, stderr bytes.Buffer
	status := run(ctx, []string{"puzzles", "-o", filepath.Join(t.TempDir(), "p"), "--count", "10"}, streams{strings.NewReader(""), &out, &stderr})
	if status != exitInterrupted || !strings.Contains(stderr.String(), "of 10 puzzles are kept; the same command resumes it") {
		t.Errorf("status %d, %q", status, stderr.String())
	}
}

// Ratings order the puzzles that ship for players that had no part in them: the share that a player solves falls from band to band, and
// rises with the player's strength. A soak has more puzzles and players, and its log is the table of the documentation.
func TestPuzzleRatings(t *testing.T) {
	families := [][]string{{"uct:sims=50", "uct:sims=500", "uct:sims=5000"}}
	each := 30
	if gametest.Soak() {
		each = 150
		families = [][]string{
			{"negamax"},
			{"uct:sims=50", "uct:sims=500", "uct:sims=5000"},
			{"policy:model=default-fast", "mcts:model=default-fast,visits=20,exact=false", "mcts:model=default-fast,visits=200,exact=false", "mcts:model=default-fast,visits=2000,exact=false"},
		}
	}
	bands := []int{puzzle.Least, puzzle.Least + 1, 1000, 1300, 1600, puzzle.Most}
	puzzles := make([][]puzzle.Puzzle, len(bands))
	all := gametest.Must(puzzle.Read(bytes.NewReader(puzzle.Shipped())))(t)
	gametest.Rand(9).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, p := range all {
		band := len(bands) - 1
		for p.Rating < bands[band] {
			band--
		}
		if len(puzzles[band]) < each {
			puzzles[band] = append(puzzles[band], p)
		}
	}
	shared := shareAgents(processors{}, io.Discard)
	error3 := func(a, b float64) float64 { // three standard errors of the difference of two shares
		return 3 * math.Sqrt((a*(1-a)+b*(1-b)+0.02)/float64(each))
	}
	for _, family := range families {
		var weaker []float64
		for _, name := range family {
			player := gametest.Must(agent.New(gametest.Must(agent.Parse(name))(t), shared))(t)
			var shares []float64
			row := fmt.Sprintf("%-48s", name)
			for _, band := range puzzles {
				solved := 0
				for _, p := range band {
					if gametest.Must(player.Move(t.Context(), p.Board, p.Position()))(t) == p.Move {
						solved++
					}
				}
				shares = append(shares, float64(solved)/float64(len(band)))
				row += fmt.Sprintf("%6.0f%%", 100*shares[len(shares)-1])
			}
			t.Log(row)
			for i, share := range shares {
				if i > 0 && share > shares[i-1]+error3(share, shares[i-1]) {
					t.Errorf("%s solves more of the puzzles rated %d than of those rated %d", name, bands[i], bands[i-1])
				}
				if weaker != nil && share < weaker[i]-error3(share, weaker[i]) {
					t.Errorf("%s solves fewer of the puzzles rated %d than a weaker player: %.2f, %.2f", name, bands[i], share, weaker[i])
				}
			}
			if shares[0] <= shares[len(shares)-1] {
				t.Errorf("%s solves no smaller share of the hardest puzzles than of the easiest", name)
			}
			weaker = shares
		}
	}
}
