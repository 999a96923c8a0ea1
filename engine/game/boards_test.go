package game_test

import (
	"fmt"
	"testing"

	"github.com/evald/evald/engine/game"
)

// A board is prepared once, in whatever way it is asked for, and again when many others have come.
func TestBoards(t *testing.T) {
	var b game.Boards
	get := func(text string) *game.Board {
		t.Helper()
		board, err := b.Parse(text)
		if err != nil || board.Rules().String() != text {
			t.Fatalf("%s: %v, %v", text, board, err)
		}
		return board
	}
	first, second := get("7x6x4"), get("5x4x4")
	for range 2 {
		if get("7x6x4") != first || get("5x4x4") != second {
			t.Error("a board was prepared again")
		}
	}
	if board, err := b.Get(first.Rules()); err != nil || board != first {
		t.Errorf("by its rules it is %p, not %p; %v", board, first, err)
	}
	if get("5x4x4") != second {
		t.Error("the text of one board gives another")
	}
	for _, wrong := range []string{"", "7x6", "0x6x4"} {
		if _, err := b.Parse(wrong); err == nil {
			t.Errorf("%q is a board", wrong)
		}
	}
	for columns := 1; columns <= 15; columns++ {
		for rows := 2; (rows+1)*columns <= 100; rows++ {
			get(fmt.Sprintf("%dx%dx1", columns, rows))
			get(fmt.Sprintf("%dx%dx2", columns, rows))
		}
	}
	if get("7x6x4") == first {
		t.Error("boards are kept for ever")
	}
}
