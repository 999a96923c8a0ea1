package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/score"
)

// The tables of models/BOARDS.md are made of what score --json says of several evaluators of the same
// positions:
//
//	EVALD_SCORES=any.json,bitsquares.json go test ./cmd/evald -run TestBoardsPage -update
//
// Without EVALD_SCORES the test compares tables of small sets with a golden file.
func TestBoardsPage(t *testing.T) {
	if files := os.Getenv("EVALD_SCORES"); files != "" && *update {
		var page boardsPage
		for _, file := range strings.Split(files, ",") {
			var reports boardsPage
			gametest.OK(t, json.Unmarshal(getFile(t, file), &reports))
			page = append(page, reports...)
		}
		path := filepath.Join("..", "..", "models", "BOARDS.md")
		intro, _, found := strings.Cut(string(getFile(t, path)), "## Games\n")
		if !found {
			t.Fatalf("%s has no heading Games", path)
		}
		putFile(t, path, intro+page.text(t))
		return
	}
	testdata := gametest.Must(filepath.Abs("testdata"))(t)
	files := smallSets(t)
	page := boardsPage(measuredJSON(t, slices.Concat(files, tiny, []string{"--visits", "0,10"})...))
	page = append(page, measuredJSON(t, append(files, "--backend", "bitsquares", "--visits", "0,10")...)...)
	text := page.text(t)
	t.Chdir(filepath.Dir(testdata))
	golden(t, "score_boards.md", text)
}

// boardsPage has the columns of the tables; all have the same boards.
type boardsPage []namedReport

// text are the tables of all games, and of those that the network any has not learned.
func (p boardsPage) text(t *testing.T) string {
	t.Helper()
	for _, r := range p {
		for i, b := range r.Boards {
			r.Boards[i].Rules = gametest.Must(game.ParseRules(b.Name))(t)
			if b.Name != p[0].Boards[i].Name {
				t.Fatalf("%s is measured on %s, %s on %s", r.Model, b.Name, p[0].Model, p[0].Boards[i].Name)
			}
		}
	}
	var w strings.Builder
	seen, unseen := p.games()
	if len(seen) > 0 {
		w.WriteString("## Games\n\n")
		p.tables(&w, seen)
	}
	if len(unseen) > 0 {
		w.WriteString("\n## Games not learned from\n\nThe games of `--rules unseen`, from which the network `any` has not learned.\n\n")
		p.tables(&w, unseen)
	}
	if slices.ContainsFunc(append(seen, unseen...), p.replaced) {
		w.WriteString("\n\\* A heuristic answered some positions in place of the network.\n")
	}
	return w.String()
}

// mixRules returns the games of a named mix.
func mixRules(name string) (all []game.Rules) {
	mix, err := game.ParseMix(name)
	if err != nil {
		panic(err) // its name stands in game.Mixes
	}
	for _, part := range mix {
		all = append(all, part.Rules)
	}
	return all
}

// games returns the indices of the boards in the reports, in the order of the page.
func (p boardsPage) games() (seen, unseen []int) {
	held := mixRules("unseen") // which no shipped network was trained on
	for i, b := range p[0].Boards {
		if slices.Contains(held, b.Rules) {
			unseen = append(unseen, i)
		} else {
			seen = append(seen, i)
		}
	}
	for _, some := range [][]int{seen, unseen} {
		slices.SortFunc(some, func(a, b int) int {
			return score.CompareRules(p[0].Boards[a].Rules, p[0].Boards[b].Rules)
		})
	}
	return seen, unseen
}

// replaced reports whether a heuristic answered some positions of a board in place of the network of the first report.
func (p boardsPage) replaced(board int) bool {
	return !heuristic.Is(p[0].Model) && p[0].Boards[board].Heuristic > 0
}

// tables writes the rows of games, their means, and the worst games.
func (p boardsPage) tables(w io.Writer, games []int) {
	p.head(w, "game", "positions", "solved")
	for _, i := range games {
		b := p[0].Boards[i]
		star := ""
		if p.replaced(i) {
			star = " \\*"
		}
		fmt.Fprintf(w, "| %s%s | %d | %s |", b.Name, star, b.Positions, solvedCell(b.Solved))
		for _, r := range p {
			fmt.Fprintf(w, " %s |", cell(rates(r.Boards[i].Summary)))
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w)
	p.head(w, "mean of", "games")
	var groups [][]int
	for n, i := range games {
		if n == 0 || p.inARow(games[n-1]) != p.inARow(i) {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], i)
	}
	for _, group := range groups {
		p.means(w, fmt.Sprintf("%d in a row", p.inARow(group[0])), group)
	}
	if len(groups) > 1 {
		p.means(w, "all", games)
	}
	fmt.Fprintln(w)
	p.head(w, "worst game")
	for k, name := range []string{"good moves", "good, critical", "results"} {
		fmt.Fprintf(w, "| %s |", name)
		for _, r := range p {
			fmt.Fprintf(w, " %s |", worst(r.Boards, games, k))
		}
		fmt.Fprintln(w)
	}
}

func (p boardsPage) inARow(board int) int { return p[0].Boards[board].Rules.InARow }

// head writes the first two lines of a table with the given columns and one for each report.
func (p boardsPage) head(w io.Writer, columns ...string) {
	for _, r := range p {
		columns = append(columns, r.Model)
	}
	fmt.Fprintf(w, "| %s |\n|%s\n", strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
}

// means writes a row of means over games.
func (p boardsPage) means(w io.Writer, name string, games []int) {
	fmt.Fprintf(w, "| %s | %d |", name, len(games))
	for _, r := range p {
		var means [3]score.Mean
		for k := range means {
			sum, n := 0., 0
			for _, i := range games {
				if rate := rates(r.Boards[i].Summary)[k]; rate != (score.Mean{}) {
					sum, n = sum+rate.Value, n+1
				}
			}
			if n > 0 {
				means[k] = score.Mean{Value: sum / float64(n), High: 1} // the zero Mean would stand for no rate
			}
		}
		fmt.Fprintf(w, " %s |", cell(means))
	}
	fmt.Fprintln(w)
}

// rates returns the three rates of a cell. A missing rate is the zero Mean.
func rates(s score.Summary) [3]score.Mean {
	return [3]score.Mean{s.Good, s.CriticalGood, s.ValueSign}
}

func cell(rates [3]score.Mean) string {
	var texts []string
	for _, rate := range rates {
		texts = append(texts, rateText(rate))
	}
	return strings.Join(texts, " / ")
}

func rateText(rate score.Mean) string {
	if rate == (score.Mean{}) {
		return "-"
	}
	return fmt.Sprintf("%.1f", 100*rate.Value)
}

// worst returns the lowest value of one of the three rates over the games, with its game.
func worst(boards []score.Board, games []int, rate int) string {
	at := -1
	for _, i := range games {
		if one := rates(boards[i].Summary)[rate]; one != (score.Mean{}) && (at < 0 || one.Value < rates(boards[at].Summary)[rate].Value) {
			at = i
		}
	}
	if at < 0 {
		return "-"
	}
	return fmt.Sprintf("%s (%s)", rateText(rates(boards[at].Summary)[rate]), boards[at].Name)
}

// solvedCell returns the percentage of drawn positions that were solved, for each third of the numbers of stones.
func solvedCell(thirds []score.Solved) string {
	if thirds == nil {
		return "all"
	}
	var texts []string
	for _, t := range thirds {
		text := "-"
		if t.Drawn > 0 {
			text = fmt.Sprintf("%.0f", 100*float64(t.Solved)/float64(t.Drawn))
			if text == "100" && t.Solved < t.Drawn {
				text = "99" // not all
			}
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, " / ")
}
