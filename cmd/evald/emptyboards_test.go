package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/solver"
)

// The networks that ship know of most empty boards who wins: of the 52 with four in a row whose results are known, and of smaller ones
// with three, five and six in a row that the solver finishes. A search of 10,000 visits, which takes minutes and runs with EVALD_SOAK
// alone, knows it of more. The bounds are a little below what was seen: 37 and 45 of 52, and for three in a row 19 and 36 of 36
// (models/HISTORY.md).
func TestEmptyBoards(t *testing.T) {
	four := map[string]int{}
	for _, line := range gametest.DataLines(t, "boardsizes_all.csv") {
		f := strings.Split(line, ",")
		four[f[0]+"x"+f[1]+"x4"] = map[byte]int{'+': 0, '=': 1, '-': 2}[f[2][0]]
	}
	if len(four) != 52 {
		t.Fatalf("%d boards, want 52", len(four))
	}
	atLeast := func(least int, results map[string]int, command ...string) {
		right, wrong := foretold(t, results, command...)
		t.Logf("evald %s: %d of %d right; wrong: %s", strings.Join(command, " "), right, len(results), strings.Join(wrong, " "))
		if right < least {
			t.Errorf("of %d boards %d are right, want %d", len(results), right, least)
		}
	}
	atLeast(34, four, "eval", "--backend", "cpu")
	if gametest.Soak() {
		atLeast(40, four, "search", "--visits", "10000", "--backend", "cpu")
		for k, least := range map[int]struct{ alone, searched int }{3: {17, 34}, 5: {16, 17}, 6: {13, 13}} {
			others := provenEmpty(t, k)
			atLeast(least.alone, others, "eval", "--backend", "cpu")
			atLeast(least.searched, others, "search", "--visits", "10000", "--backend", "cpu")
		}
	}
}

// foretold counts the empty boards whose likeliest result, 0 win, 1 draw, 2 loss, is the one given, and names the others.
func foretold(t *testing.T, results map[string]int, command ...string) (right int, wrong []string) {
	t.Helper()
	var games []string
	for g := range results {
		games = append(games, g)
	}
	slices.Sort(games)
	status, out, stderr := evald(t, strings.Join(games, ":-\n")+":-\n", command...)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if status != 0 || len(lines) != len(games) {
		t.Fatalf("status %d, %d lines: %s", status, len(lines), stderr)
	}
	for i, line := range lines {
		var answer struct {
			WDL []float64 `json:"wdl"`
		}
		gametest.OK(t, json.Unmarshal([]byte(line), &answer))
		if said := slices.Index(answer.WDL, slices.Max(answer.WDL)); said == results[games[i]] {
			right++
		} else {
			wrong = append(wrong, fmt.Sprintf("%s (%c for %c)", games[i], "+=-"[said], "+=-"[results[games[i]]]))
		}
	}
	return right, wrong
}

// provenEmpty has the results of the empty boards of 3 to 8 rows and columns, k in a row, that the solver finishes within a million nodes.
func provenEmpty(t *testing.T, k int) map[string]int {
	results := map[string]int{}
	for columns := 3; columns <= 8; columns++ {
		for rows := 3; rows <= 8; rows++ {
			if k > max(columns, rows) {
				continue
			}
			board := game.MustBoard(game.Rules{Rows: rows, Columns: columns, InARow: k, Gravity: true})
			s := gametest.Must(solver.New(board, solver.Options{Nodes: 1_000_000}))(t)
			switch r, err := s.WDL(t.Context(), game.Position{}); {
			case err == nil:
				results[strconv.Itoa(columns)+"x"+strconv.Itoa(rows)+"x"+strconv.Itoa(k)] = 1 - r.Score
			case !errors.Is(err, solver.ErrNodes):
				t.Fatal(err)
			}
		}
	}
	return results
}
