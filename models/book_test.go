package models_test

import (
	"fmt"
	"testing"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/models"
)

// The shipped book agrees with scores published by others.
func TestExactBook(t *testing.T) {
	if models.ExactBook(game.TicTacToe) != nil {
		t.Error("there is a book of tic-tac-toe")
	}
	book, board := models.ExactBook(game.Connect4), game.MustBoard(game.Connect4)
	if score, ok := book.Score(game.Position{}); !ok || score != 1 {
		t.Errorf("the empty board has score %d (%v), want 1: won with the last stone but one", score, ok)
	}
	known := 0
	for _, line := range gametest.DataLines(t, "book6_7x6x4") {
		var moves string
		var want int
		if _, err := fmt.Sscan(line, &moves, &want); err != nil {
			t.Fatal(err)
		}
		p, _, err := board.ParseMoves(moves)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := book.Score(p); ok {
			known++
			if got != want {
				t.Errorf("%s: score %d, want %d", moves, got, want)
			}
		}
	}
	if known < 500 {
		t.Errorf("the book has %d of these positions", known)
	}
}
