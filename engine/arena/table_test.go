package arena_test

import (
	"encoding/json"
	"math"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/evald/evald/engine/arena"
)

// A table computed by hand.
func TestTable(t *testing.T) {
	games := []arena.Game{
		{Number: 1, Pair: 1, Opening: 1, First: "a", Second: "b", Points: 0, Reason: "4 in a row", Plies: 12, FirstMoves: 3, FirstSeconds: 6, FirstLongest: 5, SecondMoves: 4, SecondSeconds: 2, SecondLongest: 1},
		{Number: 2, Pair: 2, Opening: 1, First: "a", Second: "c", Points: 0.5, Reason: "draw", Plies: 42, FirstMoves: 1, FirstSeconds: 2, FirstLongest: 2, FirstLate: 1},
		{Number: 3, Pair: 3, Opening: 1, First: "b", Second: "c", Points: 1, Reason: "forfeit: lost the thread"},
		{Number: 4, Pair: 1, Opening: 1, First: "b", Second: "a", Points: 1, Reason: "4 in a row", SecondMoves: 4, SecondSeconds: 8, SecondLongest: 3},
		{Number: 5, Pair: 2, Opening: 1, First: "c", Second: "a", Points: 0, Reason: "4 in a row"},
		{Number: 7, Pair: 1, Opening: 2, First: "a", Second: "b", Points: 0.5, Reason: "draw", Plies: 42},
	}
	got := arena.NewTable([]string{"a", "b", "c"}, games)
	ratings := cmpopts.IgnoreFields(arena.Standing{}, "Elo", "EloError", "TooFew")
	want := []arena.Standing{
		{Rank: 1, Player: "b", Games: 4, Wins: 3, Draws: 1, Score: 3.5 / 4, Moves: 4, Seconds: 0.5, Longest: 1},
		{Rank: 2, Player: "a", Games: 5, Wins: 1, Draws: 2, Losses: 2, Score: 2.0 / 5, Moves: 8, Seconds: 2, Longest: 5, Late: 1},
		{Rank: 3, Player: "c", Games: 3, Draws: 1, Losses: 2, Score: 0.5 / 3, Forfeits: 1, Why: "forfeit: lost the thread"},
	}
	if diff := gocmp.Diff(want, got.Standings, ratings); diff != "" {
		t.Error(diff)
	}
	meetings := []arena.Meeting{
		{A: "b", B: "a", Games: 3, Wins: 2, Draws: 1, Score: 2.5 / 3, Pairs: [5]int{0, 0, 0, 0, 1}},
		{A: "b", B: "c", Games: 1, Wins: 1, Score: 1},
		{A: "a", B: "c", Games: 2, Wins: 1, Draws: 1, Score: 0.75, Pairs: [5]int{0, 0, 0, 1, 0}},
	}
	if diff := gocmp.Diff(meetings, got.Meetings, cmpopts.IgnoreFields(arena.Meeting{}, "Elo", "EloError", "Superior", "TooFew")); diff != "" {
		t.Error(diff)
	}
	if got.Games != 6 || got.Draws != 2 || math.Abs(got.DrawShare-1./3) > 1e-12 || math.Abs(got.MeanPlies-16) > 1e-12 {
		t.Errorf("%d games, %d draws (%v), %v plies; want 6 and 2 (1/3), 16", got.Games, got.Draws, got.DrawShare, got.MeanPlies)
	}
	sum := 0.0
	for i, s := range got.Standings {
		sum += s.Elo
		if i > 0 && s.Elo >= got.Standings[i-1].Elo || !(s.EloError > 0) {
			t.Errorf("ratings are not in order, or have no interval: %+v", got.Standings)
		}
	}
	if math.Abs(sum) > 1e-9 {
		t.Errorf("ratings sum to %v", sum)
	}
	if pairs := arena.CountPairs(games[:1], "a"); pairs != [5]int{} {
		t.Errorf("half a pair counts: %v", pairs)
	}
	two := []arena.Game{games[0], games[3], games[5]}
	if pairs := arena.CountPairs(two, "a"); pairs != [5]int{1, 0, 0, 0, 0} {
		t.Errorf("pairs of a: %v", pairs)
	}
	if pairs := arena.CountPairs(two, "b"); pairs != [5]int{0, 0, 0, 0, 1} {
		t.Errorf("pairs of b: %v", pairs)
	}
}

// Tables of no games and of one game can be encoded as JSON.
func TestTableOfOneGame(t *testing.T) {
	for _, games := range [][]arena.Game{nil, {{Number: 1, Pair: 1, Opening: 1, First: "a", Second: "b", Points: 1}}} {
		table := arena.NewTable([]string{"a", "b"}, games)
		if _, err := json.Marshal(table); err != nil || table.Standings[0].EloError != -1 || !table.Standings[0].TooFew || table.DrawShare != 0 || table.MeanPlies != 0 {
			t.Errorf("%+v: %v", table, err)
		}
	}
}
